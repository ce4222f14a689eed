"""Writes a wheel around one program, as PEP 427 describes it, with the same bytes every time.

usage: wheel.py PROGRAM METADATA LICENCE VERSION TAG EPOCH LEVEL OUT
"""

import base64
import hashlib
import sys
import time
import zipfile

program, metadata, licence, version, tag, epoch, level, out = sys.argv[1:]
date = time.gmtime(int(epoch))[:6]
info = f"fastness-{version}.dist-info"
data = f"fastness-{version}.data"
wheel = f"Wheel-Version: 1.0\nGenerator: fastness\nRoot-Is-Purelib: false\nTag: {tag}\n"


def read(path):
    with open(path, "rb") as file:
        return file.read()


entries = [
    (f"{data}/scripts/fastness", read(program), 0o755),
    (f"{info}/METADATA", read(metadata), 0o644),
    (f"{info}/WHEEL", wheel.encode(), 0o644),
    (f"{info}/licenses/LICENSE", read(licence), 0o644),
]


def record():
    for name, content, _ in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        yield f"{name},sha256={digest},{len(content)}\n"
    yield f"{info}/RECORD,,\n"


entries.append((f"{info}/RECORD", "".join(record()).encode(), 0o644))
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=int(level)) as archive:
    for name, content, mode in entries:
        entry = zipfile.ZipInfo(name, date)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.create_system = 3
        entry.external_attr = (0o100000 | mode) << 16
        archive.writestr(entry, content)
