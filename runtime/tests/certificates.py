"""An authority, and certificates that it signs, as cert-manager would put them into a Secret and the kubelet into a pod's volume."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)


class Authority:
    """One that signs; ``pem``: its own certificate, which it has signed itself, or the authority ``above``."""

    def __init__(self, name: str = "test authority", above: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        signer = self if above is None else above
        own = signer._unsigned(self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(True, None), True)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        own = own.add_extension(usage, True)
        self.pem = own.sign(signer._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, *names: str, password: bytes = b"") -> dict[str, bytes]:
        """The content of a Secret for these names or addresses; ``password``: of the key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._unsigned(x509.Name([]), key.public_key())
        made = made.add_extension(x509.SubjectAlternativeName([_name(each) for each in names]), True)
        made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
        how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        pem = serialization.Encoding.PEM
        return {
            "tls.crt": made.sign(self._key, hashes.SHA256()).public_bytes(pem),
            "tls.key": key.private_bytes(pem, serialization.PrivateFormat.PKCS8, how),
            "ca.crt": self.pem,
        }

    def _unsigned(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
        )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


class Mounted:
    """A folder as the kubelet mounts a Secret: links to files in another folder, which is replaced as a whole by one rename."""

    def __init__(self, folder: Path) -> None:
        self.path, self._times = folder, 0
        folder.mkdir()

    def put(self, content: dict[str, bytes]) -> Path:
        """The Secret has this content from now on; returns the folder."""
        self._times += 1
        version = self.path / f"..{self._times}"
        version.mkdir()
        for name, data in content.items():
            (version / name).write_bytes(data)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(Path("..data") / name)
        (self.path / "..part").symlink_to(version.name)
        (self.path / "..part").rename(self.path / "..data")
        return self.path
