"""What encryption of a dataflow's traffic consists of: the files of the control API's certificate, and Spark's own conf. Pure.

The files are those of a Secret of type ``kubernetes.io/tls``. Everything else between driver and executors passes over Spark's RPC and
block transfer, those of standing tasks too; Spark encrypts both with a key that it agrees on by the application's secret.
"""

from __future__ import annotations

from typing import Final

TLS_VARIABLE: Final = "BINSHIFT_TLS_DIRECTORY"
"""The folder with the certificate of the control API; without it, it speaks plain HTTP."""
AUTHORITY_VARIABLE: Final = "BINSHIFT_CONTROL_CA"
"""For a client in a pod: the file with the authority that has signed that certificate."""
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITY: Final = "ca.crt"
SECRET_ANNOTATION: Final = "binshift.dev/tls-secret"
"""On a driver's pod: the Secret with its certificate; without it, its ports speak plain HTTP."""
SECRET_VARIABLE: Final = "_SPARK_AUTH_SECRET"
"""Spark's own: its secret, in the environment of a process."""

SPARK_CONF: Final = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
}
"""The same for all of an application's processes, as a process with another conf cannot connect. Spark's default cipher does not detect
that a message was changed; this one does. The last one is for what Spark writes to local disks: exchanged and spilled rows."""
