"""The certificate of the control API, read again when its files change.

A renewed Secret appears in a running pod as other files. Each new connection checks for that, so neither a timer nor a restart is needed;
files that cannot be used, as while they are being replaced, change nothing.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from binshift.encryption import CERTIFICATE, KEY
from binshift.errors import InvalidSettings

log = logging.getLogger(__name__)

Version = tuple[tuple[int, int, int], ...]
"""Inode, time of change and size of each file."""


class ServedCertificate:
    """The certificate in a folder, as a server presents it.

    Args:
        folder: with ``tls.crt`` (the certificate, and those between it and the authority) and ``tls.key``, both PEM, the key not encrypted.

    Attributes:
        context: for the server; its connections get the newest certificate.

    Raises:
        InvalidSettings: a file is missing or cannot be used; the message names it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._version = self._refused = self._seen()
            self._newest = self.context = self._loaded()
        except (OSError, ValueError) as error:
            raise InvalidSettings(
                f"the certificate in {folder} cannot be used: {error}; it must have {CERTIFICATE} and its {KEY}, as PEM, without a password"
            ) from error
        self.context.sni_callback = self._choose  # called for every connection, with a name or without

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        version = None
        try:
            version = self._seen()
            if version not in (self._version, self._refused):
                self._newest, self._version = self._loaded(), version
                log.info("the control API has a renewed certificate, from %s", self._folder)
        except (OSError, ValueError) as error:
            if version is not None:
                self._refused = version
            log.warning("the renewed certificate in %s is not used: %s", self._folder, error)
        connection.context = self._newest

    def _seen(self) -> Version:
        found = [(self._folder / name).stat() for name in (CERTIFICATE, KEY)]
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in found)

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # Without a password it would ask a terminal for that of an encrypted key.
        context.load_cert_chain(self._folder / CERTIFICATE, self._folder / KEY, password="")
        return context
