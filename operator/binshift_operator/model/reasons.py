"""Why a dataflow is as it is: the closed lists of reasons that conditions and events carry."""

from __future__ import annotations

from enum import StrEnum


class Awaited(StrEnum):
    """What the next step waits for: the reasons of Progressing while it is True."""

    NAMES = "Names"
    SPEC = "Spec"
    CHECKPOINT = "Checkpoint"
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


class AtRest(StrEnum):
    """Why nothing is awaited: the reasons of Progressing while it is False."""

    SETTLED = "Settled"
    SUSPENDED = "Suspended"
    FINISHED = "Finished"
    FENCED = "Fenced"
    MIGRATION_TIMED_OUT = "MigrationTimedOut"
    MIGRATION_CANCELLED = "MigrationCancelled"


class Trouble(StrEnum):
    """What a person must act upon: the reasons of Degraded, most pressing first."""

    INVALID_SPEC = "InvalidSpec"
    NAME_TAKEN = "NameTaken"
    TWO_OPERATORS = "TwoOperators"
    CHECKPOINT_NOT_FOUND = "CheckpointNotFound"
    CHECKPOINT_NOT_SHARED = "CheckpointNotShared"
    CREDENTIALS_MISSING = "CredentialsMissing"
    SERVICE_ACCOUNT_NOT_FOUND = "ServiceAccountNotFound"
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
    CONTROL_UNREACHABLE = "ControlUnreachable"
