"""Runs a command in an unpacked container image, with one folder of the host in it.

usage: contained.py BUNDLE FOLDER COMMAND...

User, environment and root come from the image's own settings. bubblewrap stands in for a container
runtime, because those want control groups that not every machine of a test has. The network is the
host's, so that a test can connect. Signals are passed on to the command.
"""

import json
import os
import signal
import subprocess
import sys

bundle, folder, *command = sys.argv[1:]
with open(os.path.join(bundle, "config.json")) as file:
    process = json.load(file)["process"]
told, tell = os.pipe()
words = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-ipc", "--unshare-uts"]
words += ["--info-fd", str(tell), "--uid", str(process["user"]["uid"]), "--gid", str(process["user"]["gid"])]
words += ["--ro-bind", os.path.join(bundle, "rootfs"), "/", "--proc", "/proc", "--dev", "/dev"]
words += ["--tmpfs", "/tmp", "--bind", folder, folder, "--clearenv"]
for name, _, value in (variable.partition("=") for variable in process["env"]):
    words += ["--setenv", name, value]
words += ["--chdir", os.getcwd(), "--"]

child = subprocess.Popen(words + command, pass_fds=[tell])
os.close(tell)
with os.fdopen(told) as info:
    inner = json.load(info)["child-pid"]
signal.signal(signal.SIGTERM, lambda number, _: os.kill(inner, number))
sys.exit(child.wait())
