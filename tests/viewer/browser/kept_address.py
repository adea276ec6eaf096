"""`python kept_address.py PORT FOLDER`: the server of `whyrun view` with an address that stays over a restart.

Users get another address each time; a page must survive a lost connection all the same, such as that of a tunnel.
"""

from __future__ import annotations

import sys

from whyrun.project import Project
from whyrun.viewer import server
from whyrun.viewer.current import StateSource
from whyrun.viewer.views import Views

port, folder = int(sys.argv[1]), sys.argv[2]
listener = server.bind("127.0.0.1", port)
access = server.Access(listener.getsockname()[1], server.known_hosts("127.0.0.1", ()), "folder", "token", "key")
sys.stdout.write(f"{server.address('127.0.0.1', access)}\n")
sys.stdout.flush()
server.serve(listener, StateSource(lambda: Project.open(f"{folder}/workflow.yaml")), Views(), access)
