"""S3 for Spark, from the variables that S3's clients share, so that binshift's log and Spark's part of a checkpoint use one store.

| variable | for |
|---|---|
| ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN`` | credentials; without them, a role |
| ``AWS_REGION``, ``AWS_DEFAULT_REGION`` | the region |
| ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL`` | a server other than Amazon's; ``http://`` is taken at its word |
| ``AWS_WEB_IDENTITY_TOKEN_FILE``, ``AWS_ROLE_ARN`` | a role for a pod's ServiceAccount, as EKS sets them |

The log reads them itself (`binshift.log.storage.object_store`). Hadoop's file system finds most credentials by itself, but not
a web identity, which must be configured together with the other providers. Both try them in one order. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ENDPOINT_VARIABLES: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
IDENTITY_VARIABLE: Final = "AWS_WEB_IDENTITY_TOKEN_FILE"
CREDENTIALS_CONF: Final = "spark.hadoop.fs.s3a.aws.credentials.provider"
WITH_WEB_IDENTITY: Final = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
)
"""Hadoop's own list, and a web identity before the node's role: a pod that has both means its own."""
FILE_SYSTEM: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def endpoint(environment: Mapping[str, str]) -> str | None:
    """The server to use, if it is not Amazon's.

    >>> endpoint({"AWS_ENDPOINT_URL": "http://minio:9000"})
    'http://minio:9000'
    """
    return next((environment[name] for name in ENDPOINT_VARIABLES if environment.get(name)), None)


def region(environment: Mapping[str, str]) -> str | None:
    """The region, if one is named."""
    return next((environment[name] for name in REGION_VARIABLES if environment.get(name)), None)


def spark_conf(environment: Mapping[str, str]) -> dict[str, str]:
    """Conf that takes Hadoop's file system to the same server.

    >>> spark_conf({})
    {}
    >>> spark_conf({"AWS_ENDPOINT_URL": "http://minio:9000"})["spark.hadoop.fs.s3a.connection.ssl.enabled"]
    'false'
    """
    found, server, where = {}, endpoint(environment), region(environment)
    if server is not None:
        found["spark.hadoop.fs.s3a.endpoint"] = server
        found["spark.hadoop.fs.s3a.connection.ssl.enabled"] = str(server.startswith("https:")).lower()
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if where is not None:
        found["spark.hadoop.fs.s3a.endpoint.region"] = where
    if environment.get(IDENTITY_VARIABLE):
        found[CREDENTIALS_CONF] = ",".join(WITH_WEB_IDENTITY)
    return found
