"""Who a node is: a key of its own, and a certificate that the federation's authority signed.

Keys are on the curve P-256, which gRPC takes. A certificate begins five minutes before it is made,
because the clocks of two machines are never quite the same.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from peerwise.errors import BadFile, BadSetting
from peerwise.files import write_whole
from peerwise.peer.names import LONGEST, check_node
from peerwise.peer.passphrase import AUTHORITY, NODE

SKEW = timedelta(minutes=5)  # how far clocks may be apart
CA, CA_KEY = "ca.pem", "ca.key"


class Identity(NamedTuple):
    """What a node shows and what it trusts, as PEM texts."""

    node: str
    certificate: bytes
    key: bytes
    authority: bytes


def make_authority(
    folder: str | Path, name: str = "peerwise", days: int = 3650, passphrase: bytes | None = None
) -> Path:
    """Make the key and the certificate that sign all others, as ca.key and ca.pem in a folder.

    `passphrase`: of ca.key, which lies open without one.
    """
    home = Path(folder)
    for path in (home / CA, home / CA_KEY):
        if path.exists():
            raise BadFile(
                f"{path} is there already, and nodes may trust it; give another folder, or remove "
                "it if no node does"
            )
    if not 0 < len(name) <= LONGEST:
        raise BadSetting(f"the authority's name must have 1 to {LONGEST} characters, got {name!r}")
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(name, _common_name(name), key.public_key(), key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(home / CA_KEY, key, passphrase)
    write_whole(home / CA, certificate.public_bytes(Encoding.PEM))
    return home / CA


def make_certificate(
    folder: str | Path,
    node: str,
    out: str | Path | None = None,
    days: int = 365,
    hosts: Iterable[str] = (),
    renew: bool = False,
    passphrase: bytes | None = None,
    ca_passphrase: bytes | None = None,
) -> Path:
    """Make NODE.pem and NODE.key, signed by the authority in a folder, there or in `out`.

    A key that is there is kept, and `renew` writes a new certificate for it in the old one's place.
    `hosts` are more names or addresses that the node may be dialled by; a renewed certificate keeps
    those of the old one unless others are given. `out` is given a copy of
    ca.pem, so that it is all that the node needs. `passphrase` is that of the node's key; a key
    without one gets it. `ca_passphrase` is that of the authority's.
    """
    check_node(node)
    hosts = list(hosts)
    for host in hosts:
        # neighbours know a node by its name: no certificate may carry another's
        if host != node and ((Path(folder) / f"{host}.pem").exists() or _may_be_a_node(host)):
            raise BadSetting(
                f"{host!r} may be the name of another node, for which neighbours would then take "
                "this one; give an address, or a name with a dot"
            )
    home, place = Path(folder), Path(folder if out is None else out)
    authority, signer = _authority(home, ca_passphrase)
    path, key_path = place / f"{node}.pem", place / f"{node}.key"
    if path.exists() and not renew:
        raise BadFile(
            f"{path} is there already; --renew, or renew=True, replaces it by a new certificate "
            "for the same key"
        )
    root = authority.public_bytes(Encoding.PEM)
    if out is not None and (place / CA).exists() and _read(place / CA, "", "") != root:
        raise BadFile(
            f"{place / CA} is that of another authority; give another folder for '{node}'"
        )
    fresh = not key_path.exists()
    opens = fresh or not is_protected(key_path)
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if fresh
        else _load_key(key_path, None if opens else passphrase, NODE)[1]
    )
    names = [_host(host) for host in dict.fromkeys(hosts) if host != node]
    if not names and path.exists():
        names = [name for name in _hosts(path) if name != x509.DNSName(node)]
    usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    latest = authority.not_valid_after_utc
    certificate = (
        _builder(node, authority.subject, key.public_key(), signer.public_key(), days, latest)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(node), *names]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    if fresh or (opens and passphrase is not None):
        _write_key(key_path, key, passphrase)
    if place != home:
        write_whole(place / CA, root)
    write_whole(path, certificate.public_bytes(Encoding.PEM))
    return path


def load_identity(folder: str | Path, node: str, passphrase: bytes | None = None) -> Identity:
    """A node's certificate, its key and ca.pem from a folder, after checking that they fit.

    The key is there without its passphrase, for gRPC takes no other; in memory alone.
    """
    check_node(node)
    home = Path(folder)
    path = home / f"{node}.pem"
    mend = f"make it with `peerwise network cert {node} --ca FOLDER`"
    root_text = _read(home / CA, "certificate of the authority", "copy it from who signs")
    text = _read(path, f"certificate of node '{node}'", mend)
    key_text, key = _load_key(home / f"{node}.key", passphrase, NODE)
    root, own = _certificate(root_text, str(home / CA)), _certificate(text, str(path))
    if _name(own, str(path)) != node:
        raise BadFile(f"{path} is the certificate of '{_name(own, str(path))}', not of '{node}'")
    if _public(own.public_key()) != _public(key.public_key()):
        raise BadFile(f"{home / f'{node}.key'} is not the key of {path}; {mend}")
    if not is_issued(own, root):
        raise BadFile(f"{path} was not signed by the authority {home / CA}; {mend}")
    _check_time(root, str(home / CA), "make a new authority")
    _check_time(own, str(path), f"renew it with `peerwise network cert {node} --renew --ca FOLDER`")
    return Identity(node, text, key_text, root_text)


def expires(pem: bytes) -> datetime:
    """When a certificate ends, with its time zone."""
    return _certificate(pem, "the certificate").not_valid_after_utc


def is_over(pem: bytes) -> bool:
    """Whether a certificate has ended."""
    return _now() > _end(pem)


@lru_cache(maxsize=1024)
def _end(pem: bytes) -> datetime:
    return expires(pem)


def _now() -> datetime:
    return datetime.now(UTC)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _may_be_a_node(host: str) -> bool:
    if "." in host or ":" in host or host == "localhost":
        return False
    try:
        check_node(host)
    except BadSetting:
        return False
    return True


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if not host or not host.isascii() or any(c.isspace() or c in ":/*" for c in host):
        raise BadSetting(f"{host!r} is not a host; give a name or an address, without a port")
    return x509.DNSName(host)


def _hosts(path: Path) -> list[x509.GeneralName]:
    """The names and addresses in a certificate that is there."""
    old = _certificate(_read(path, "certificate", ""), str(path))
    try:
        return list(old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _builder(
    name: str,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    days: int,
    latest: datetime | None = None,
) -> x509.CertificateBuilder:
    """What all certificates have; one that another signs ends no later than that other."""
    if not 1 <= days <= 36500:
        raise BadSetting(f"days must be from 1 to 36500, got {days}")
    start, end = _now() - SKEW, _now() + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end if latest is None else min(end, latest))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(
    home: Path, passphrase: bytes | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    mend = f"make an authority with `peerwise network ca {home}`"
    path = home / CA
    root = _certificate(_read(path, "certificate of the authority", mend), str(path))
    _check_time(root, str(path), "make a new authority in another folder")
    _, key = _load_key(home / CA_KEY, passphrase, AUTHORITY)
    if _public(root.public_key()) != _public(key.public_key()):
        raise BadFile(f"{home / CA_KEY} is not the key of {path}; restore the one that is")
    return root, key


def _certificate(pem: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise BadFile(f"{what} is not a certificate in PEM form: {error}") from None


def name_in(certificate: x509.Certificate) -> str | None:
    """The node that a certificate names, if it names one."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1 or not isinstance(names[0].value, str):
        return None
    return names[0].value


def _name(certificate: x509.Certificate, what: str) -> str:
    name = name_in(certificate)
    if name is None:
        raise BadFile(f"{what} names no node; make one with `peerwise network cert`")
    return name


def is_issued(own: x509.Certificate, root: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate."""
    try:
        own.verify_directly_issued_by(root)
        basic = root.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (InvalidSignature, TypeError, ValueError, x509.ExtensionNotFound):
        return False
    return basic.ca


def _check_time(certificate: x509.Certificate, what: str, mend: str) -> None:
    start, end, now = certificate.not_valid_before_utc, certificate.not_valid_after_utc, _now()
    if now < start:
        raise BadFile(
            f"{what} is valid from {_told(start)} and the clock here says {_told(now)}; set the "
            "clock"
        )
    if now > end:
        raise BadFile(
            f"{what} expired at {_told(end)} and the clock here says {_told(now)}; {mend}"
        )


def _told(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _public(key: object) -> bytes:
    """A public key as bytes, so that two can be compared."""
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return b""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> None:
    write_whole(path, _pem(key, passphrase), private=True)


def _pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> bytes:
    secret: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        secret = BestAvailableEncryption(passphrase)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)


def is_protected(path: Path) -> bool:
    """Whether a key is there that needs a passphrase."""
    try:
        return b"ENCRYPTED" in path.read_bytes()
    except OSError:
        return False


def _read(path: Path, what: str, mend: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise BadFile(f"there is no {path}, the {what}; {mend}") from None
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error}") from None


def _load_key(
    path: Path, passphrase: bytes | None, variable: str
) -> tuple[bytes, ec.EllipticCurvePrivateKey]:
    """A key that only its owner can read, and its text without a passphrase."""
    text = _read(path, "key", "copy it from where it was made, or make a new one")
    mode = path.stat().st_mode & 0o777
    if os.name == "posix" and mode & 0o077:
        raise BadFile(
            f"{path} can be read by others (mode {mode:o}); keep it to yourself with `chmod 600 "
            f"{path}`"
        )
    _check_passphrase(path, passphrase, variable)
    try:
        key = load_pem_private_key(text, passphrase)
    except (TypeError, ValueError) as error:
        if passphrase is not None:
            raise BadFile(
                f"the passphrase does not open {path}: it is wrong, or the file is damaged"
            ) from None
        raise BadFile(f"{path} is not a key in PEM form: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadFile(f"{path} is no elliptic-curve key; make one with `peerwise network cert`")
    return text if passphrase is None else _pem(key, None), key


def _check_passphrase(path: Path, passphrase: bytes | None, variable: str) -> None:
    """Refuse a passphrase too few, and one too many: its owner believes the key to be protected."""
    if is_protected(path):
        if passphrase is None:
            option = "--passphrase-file" if variable == NODE else "--ca-passphrase-file"
            raise BadFile(f"{path} needs its passphrase; give it with {option} or {variable}")
    elif passphrase is not None:
        mend = f"`peerwise network cert {path.stem} --renew` with it protects the key"
        if variable == AUTHORITY:
            mend = f"`openssl pkcs8 -topk8 -in {path}` writes a protected copy"
        raise BadFile(f"{path} has no passphrase, but one was given; leave it out, or {mend}")
