#!/usr/bin/env python3
"""Writes an OCI image layout with one image for each architecture, without a container engine.

Each image has one layer: the static program and the certificate authorities. The same input gives the same bytes.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import tarfile

MEDIA = "application/vnd.oci.image."


class Layout:
    """The folder of an OCI image layout."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "blobs" / "sha256").mkdir(parents=True)

    def blob(self, content, media_type):
        """Stores `content` and returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def json(self, content, kind):
        """Stores `content` as JSON of an OCI media type and returns its descriptor."""
        return self.blob(json.dumps(content, sort_keys=True).encode(), f"{MEDIA}{kind}+json")


def layer(binary, certificates, created):
    """The uncompressed tar of the image's only layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        def add(name, content=None, mode=0o755):
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode = created, mode
            if content is None:
                entry.type = tarfile.DIRTYPE
            else:
                entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content) if content is not None else None)

        for folder in ("etc", "etc/ssl", "etc/ssl/certs"):
            add(folder)
        add("etc/ssl/certs/ca-certificates.crt", certificates, 0o644)
        add("capo-rs", binary)
    return buffer.getvalue()


def main():
    """Reads the arguments and writes the layout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder to create")
    parser.add_argument("--version", required=True, help="tag of the image")
    parser.add_argument("--revision", required=True, help="commit that the programs were built from")
    parser.add_argument("--certificates", required=True, help="file with certificate authorities in PEM")
    parser.add_argument("binaries", nargs="+", metavar="ARCHITECTURE=PROGRAM")
    arguments = parser.parse_args()

    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    certificates = pathlib.Path(arguments.certificates).read_bytes()
    labels = {
        "org.opencontainers.image.title": "capo-rs",
        "org.opencontainers.image.description": "Cluster API infrastructure provider for OpenStack",
        "org.opencontainers.image.source": "https://github.com/capo-rs/capo-rs",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": arguments.version,
        "org.opencontainers.image.revision": arguments.revision,
    }
    layout = Layout(arguments.out)
    manifests = []
    for pair in arguments.binaries:
        architecture, _, path = pair.partition("=")
        tar = layer(pathlib.Path(path).read_bytes(), certificates, seconds)
        compressed = layout.blob(gzip.compress(tar, mtime=0), f"{MEDIA}layer.v1.tar+gzip")
        config = layout.json(
            {
                "architecture": architecture,
                "os": "linux",
                "created": created,
                "config": {"User": "65532:65532", "Entrypoint": ["/capo-rs"], "Labels": labels},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
                "history": [{"created": created, "created_by": "capo-rs release"}],
            },
            "config.v1",
        )
        manifest = layout.json(
            {"schemaVersion": 2, "mediaType": f"{MEDIA}manifest.v1+json", "config": config, "layers": [compressed]},
            "manifest.v1",
        )
        manifests.append({**manifest, "platform": {"architecture": architecture, "os": "linux"}})
    index = layout.json(
        {"schemaVersion": 2, "mediaType": f"{MEDIA}index.v1+json", "manifests": manifests, "annotations": labels},
        "index.v1",
    )
    index["annotations"] = {"org.opencontainers.image.ref.name": arguments.version}
    (layout.folder / "index.json").write_text(
        json.dumps({"schemaVersion": 2, "mediaType": f"{MEDIA}index.v1+json", "manifests": [index]}, sort_keys=True)
    )
    (layout.folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


if __name__ == "__main__":
    main()
