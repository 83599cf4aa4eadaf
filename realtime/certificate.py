"""A certificate for trying TLS at home: browsers give the microphone only to secure pages."""

from __future__ import annotations

import ipaddress
import subprocess
from pathlib import Path

from realtime.config import ConfigError

VALID_DAYS = 365


def make_self_signed(folder: Path, host: str) -> tuple[Path, Path]:
    """Write a certificate and its key for localhost and `host`; returns their paths.

    Made anew by `openssl` at each start. Raises ConfigError if that fails.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    certificate, key = folder / "self-signed.pem", folder / "self-signed.key"
    names = ["DNS:localhost", "IP:127.0.0.1", _alternative_name(host)]
    command = ["openssl", "req", "-x509", "-nodes", "-days", str(VALID_DAYS)]
    command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-subj", "/CN=Sori", "-addext", f"subjectAltName={','.join(dict.fromkeys(names))}"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ConfigError("--tls-self-signed needs the openssl command; it is not there") from error
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"--tls-self-signed: openssl failed: {error.stderr.strip()}") from error
    key.chmod(0o600)
    return certificate, key


def _alternative_name(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"
