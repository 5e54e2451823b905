"""The closed lists of reasons of conditions and events."""

from __future__ import annotations

from enum import StrEnum


class ProgressingReason(StrEnum):
    """What is being waited for: the reasons of Progressing=True."""

    NAMES = "Names"
    SPEC = "Spec"
    CHECKPOINT = "Checkpoint"
    SNAPSHOT = "Snapshot"
    CHILDREN = "Children"
    SECRET_LOST = "SecretLost"
    STOPPING = "Stopping"
    RESTARTING = "Restarting"
    SUSPENDING = "Suspending"
    FINISHING = "Finishing"
    RUNTIME = "Runtime"
    FIRST_EPOCH = "FirstEpoch"
    OTHER_OWNER = "OtherOwner"
    GENERATION = "Generation"
    REGISTRATION = "Registration"
    TARGET = "Target"
    MIGRATION = "Migration"
    HOLD = "Hold"
    BINS = "Bins"
    PODS_ENDING = "PodsEnding"
    ROLLING_EXECUTORS = "RollingExecutors"


class SettledReason(StrEnum):
    """Why nothing is being waited for: the reasons of Progressing=False."""

    SETTLED = "Settled"
    SUSPENDED = "Suspended"
    FINISHED = "Finished"
    FENCED = "Fenced"
    MIGRATION_TIMED_OUT = "MigrationTimedOut"
    MIGRATION_CANCELLED = "MigrationCancelled"
    PAUSED = "Paused"


class ScalingReason(StrEnum):
    """Why autoscaling scales or does not: the reasons of ScalingActive and ScalingLimited."""

    MEASURING = "Measuring"
    STEADY = "Steady"
    LOAD = "Load"
    BACKLOG = "Backlog"
    REBALANCE = "Rebalance"
    SPARE = "Spare"
    INEFFECTIVE = "Ineffective"
    RECOMMEND = "Recommend"
    SUSPENDED = "Suspended"
    PAUSED = "Paused"
    NO_LOAD = "NoLoad"
    MIGRATION_TIMED_OUT = "MigrationTimedOut"
    MAX_REPLICAS = "MaxReplicas"
    UNSCHEDULABLE = "Unschedulable"
    WITHIN_RANGE = "WithinRange"

    @property
    def is_inactive(self) -> bool:
        """Whether the number of executors does not follow the load."""
        return self in (self.RECOMMEND, self.SUSPENDED, self.PAUSED, self.NO_LOAD, self.MIGRATION_TIMED_OUT)


class DegradedReason(StrEnum):
    """What a user must act upon: the reasons of Degraded=True, the most urgent first."""

    INVALID_SPEC = "InvalidSpec"
    NAME_TAKEN = "NameTaken"
    TWO_OPERATORS = "TwoOperators"
    CHECKPOINT_NOT_FOUND = "CheckpointNotFound"
    CHECKPOINT_NOT_SHARED = "CheckpointNotShared"
    CREDENTIALS_MISSING = "CredentialsMissing"
    CERTIFICATE_MISSING = "CertificateMissing"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
    SNAPSHOT_UNUSABLE = "SnapshotUnusable"
    SECRET_LOST = "SecretLost"
    REFUSED = "Refused"
    PODS_NOT_CREATED = "PodsNotCreated"
    FENCED = "Fenced"
    PROGRAM_FAILED = "ProgramFailed"
    IMAGE_PULL = "ImagePull"
    INVALID_CONFIG = "InvalidConfig"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASHING = "Crashing"
    EPOCH_HANGS = "EpochHangs"
    MIGRATION_TIMED_OUT = "MigrationTimedOut"
    MIGRATION_CANCELLED = "MigrationCancelled"
    MIGRATION_FAILED = "MigrationFailed"
    NOT_STARTED = "NotStarted"
    UNSCHEDULABLE = "Unschedulable"
    EVICTED = "Evicted"
    NOT_DELETED = "NotDeleted"
    CONTROL_UNREACHABLE = "ControlUnreachable"
