"""The container's steps, done one by one without a container engine, and the systemd unit.

    HEADWATER_BINARY=target/release/headwater python3 -m unittest discover -s tests/deploy

Copying goes into a directory that stands for the image; `cargo build` is held against what CI
builds, and its outcome is the binary that is tested.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("HEADWATER_BINARY", ROOT / "target/release/headwater"))
DOCKERFILE = ROOT / "deploy/Dockerfile"
UNIT = ROOT / "deploy/headwater.service"


def steps():
    """The instructions of the file, each with its text."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines if line.strip()]


class Image:
    """What the steps leave: files, an environment, and what runs."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.environment, self.entry, self.command, self.health = {}, None, None, None

    def at(self, path):
        return self.root / path.lstrip("/")

    def run(self, words, **more):
        """Runs a program of the image, its paths put below the image's root."""
        environment = {"PATH": os.environ["PATH"], **self.environment}
        for name, value in environment.items():
            if value.startswith("/data"):
                environment[name] = str(self.at(value))
        words = [str(self.at(words[0])), *words[1:]]
        return subprocess.Popen(words, env={**environment, **more}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)


def build(root):
    image, stage = Image(root), 0
    for instruction, text in steps():
        match instruction:
            case "FROM":
                stage += 1
                assert stage == 1 or "nonroot" in text, "it does not run as root"
            case "RUN":
                assert stage == 1, "the last stage has no shell"
                # What `./test build` has done, with the same profile.
                assert text == "cargo build --release --locked --bin headwater", text
            case "COPY" if "--from=build" in text:
                _stage, source, target = text.split()
                assert source == "/src/target/release/headwater", source
                image.at(target).parent.mkdir(parents=True)
                shutil.copy(BINARY, image.at(target))
            case "COPY" | "WORKDIR":
                assert stage == 1, text
            case "VOLUME":
                image.at(text).mkdir(parents=True)
            case "ENV":
                name, value = text.split("=", 1)
                image.environment[name] = value
            case "EXPOSE":
                assert text == "4437", text
            case "HEALTHCHECK":
                image.health = json.loads(text[text.index("["):])
            case "ENTRYPOINT":
                image.entry = json.loads(text)
            case "CMD":
                image.command = json.loads(text)
            case _:
                raise AssertionError(f"a step that nobody tests: {instruction} {text}")
    return image


class Container(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.image = build(folder.name)
        self.assertEqual(self.image.environment["HEADWATER_LISTEN"], "0.0.0.0:4437")
        # The test itself stays on this machine, on a free port.
        self.image.environment["HEADWATER_LISTEN"] = "127.0.0.1:0"

    def start(self, **more):
        server = self.image.run([*self.image.entry, *self.image.command], **more)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line + server.stderr.read()
                        if not line else line)
        return server, line.strip().removeprefix("listening on ")

    def test_it_serves_checks_its_health_and_ends_on_sigterm(self):
        key = "0123456789abcdef0123456789abcdef"
        server, url = self.start(HEADWATER_ROOT_KEY=key)
        # In a container the port is the default, and so is the client's.
        health = self.image.run(self.image.health, STREAM_URL=url)
        self.assertEqual(health.communicate(), ("ready\n", ""))
        self.assertEqual(health.returncode, 0)
        nobody = self.image.run([self.image.entry[0], "bucket", "ls"], STREAM_URL=url)
        nobody.communicate()
        self.assertEqual(nobody.returncode, 5, "credentials are asked for")
        made = self.image.run([self.image.entry[0], "bucket", "create", "demo"],
                              STREAM_URL=url, STREAM_AUTH=f"Bearer {key}")
        made.communicate()
        self.assertEqual(made.returncode, 0)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(timeout=30), 0)
        self.assertTrue(self.image.at("/data/MANIFEST").exists())
        health = self.image.run(self.image.health, STREAM_URL=url)
        health.communicate()
        self.assertEqual(health.returncode, 6, "nobody answers any more")


class Unit(unittest.TestCase):
    def values(self, name):
        return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.M)

    def test_what_it_starts_is_a_command_of_the_binary(self):
        words = shlex.split(self.values("ExecStart")[0])
        self.assertEqual(words[0], "/usr/local/bin/headwater")
        with tempfile.TemporaryDirectory() as folder:
            data = words.index("--data-dir") + 1
            self.assertEqual(words[data], "/var/lib/headwater")
            words[data] = folder
            command = [BINARY, *words[1:], "--listen", "127.0.0.1:0"]
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      text=True, cwd=folder)
            self.assertTrue(server.stdout.readline().startswith("listening on "))
            server.terminate()
            self.assertEqual(server.wait(timeout=30), 0)
            server.stdout.close()

    def test_it_does_not_restart_what_a_restart_cannot_mend(self):
        self.assertEqual(self.values("RestartPreventExitStatus"), ["2 7"])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not here")
    def test_systemd_understands_it(self):
        result = subprocess.run(["systemd-analyze", "verify", "--man=no", UNIT],
                                capture_output=True, text=True)
        ours = [line for line in result.stderr.splitlines() if "headwater.service" in line
                and "is not executable" not in line]
        self.assertEqual(ours, [])


if __name__ == "__main__":
    unittest.main()
