"""Answers pip's question for a source package's metadata.

`pip download` asks the package's build program for its metadata even when nothing will be built. The real one and what it needs would be fetched
without a hash; with this in their place pip fetches the one archive that was asked for and runs no foreign code.
"""
import os


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = os.environ["ISOTOPE_SOURCE_NAME"]
    version = os.environ["ISOTOPE_SOURCE_VERSION"]
    folder = f"{name}-{version}.dist-info"
    os.makedirs(os.path.join(metadata_directory, folder))
    with open(os.path.join(metadata_directory, folder, "METADATA"), "w") as f:
        f.write(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise RuntimeError("nothing is built here")
