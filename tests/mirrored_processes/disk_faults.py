"""Cluster whose disks fail while its nodes are down: removed journals, overwritten bytes, older copies."""

from __future__ import annotations

import base64
import json
import shutil
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mirrormq.control.control_client import call
from mirrormq.control.control_protocol import Request
from mirrormq.testing import Cluster
from tests.mirrored_processes.range_requests import PERSISTENT, queue, synchronised
from tests.seeds.seed_clients import channel
from tests.waiting import PATIENCE_S, until

NODES = 3
QUEUES = ("always", "when-synced")
"""Each queue is named after its policy's `ha-promote-on-failure`."""
GARBAGE = b"\xa5" * 20
PATIENT_MS = 120_000
"""Promotion timeout: on a busy machine the last node may start later than 30 s after the first one."""
ROUND = 250
"""Messages of one round in each queue."""


class FaultyCluster(Cluster):
    """Three nodes with two queues that are mirrored everywhere; the tests damage the nodes' directories."""

    def __init__(self, promotion_timeout_ms: int = PATIENT_MS) -> None:
        super().__init__(nodes=NODES, conf=f"mirroring_promotion_timeout = {promotion_timeout_ms}\n")
        self.confirmed: dict[str, list[bytes]] = {name: [] for name in QUEUES}
        """Bodies that were confirmed and not acknowledged, in order."""
        self._published = 0
        self._logged: list[int] = []
        """Lengths of the nodes' logs before the last stop of all."""

    def declare(self) -> None:
        """Declare the queues with their master on node 0, and wait until both mirrors are synchronised."""
        for name in QUEUES:
            definition = f'{{"ha-mode":"all","ha-sync-mode":"automatic","ha-promote-on-failure":"{name}"}}'
            self.ctl("set_policy", name, f"^{name}$", definition, "--apply-to", "queues")
        with channel(self, 0) as opened:
            for name in QUEUES:
                opened.queue_declare(name, durable=True)
        self.await_synchronised()

    def await_synchronised(self) -> None:
        for name in QUEUES:
            until(
                lambda name=name: len(synchronised(self, name)) == NODES - 1,  # type: ignore[misc]
                lambda name=name: f"mirrors of {name} are synchronised: {queue(self, name)}",  # type: ignore[misc]
            )

    def publish(self, count: int = ROUND) -> None:
        """Publish persistent messages to each queue through another node; return when all are confirmed."""

        def publish_to(index: int, name: str) -> None:
            with channel(self, index) as opened:
                first = self._published
                for number in range(first, first + count):
                    body = b"%s %d " % (name.encode(), number) + b"." * 100
                    opened.basic_publish("", name, body, PERSISTENT, mandatory=True)
                    self.confirmed[name].append(body)

        with ThreadPoolExecutor(len(QUEUES)) as pool:
            list(pool.map(publish_to, range(len(QUEUES)), QUEUES))
        self._published += count

    def consume(self, count: int) -> None:
        """Consume and acknowledge the oldest messages of each queue."""
        for index, name in enumerate(QUEUES):
            with channel(self, index) as opened:
                opened.basic_qos(prefetch_count=count)
                got: list[bytes] = []
                for method, _, body in opened.consume(name):
                    got.append(body)
                    opened.basic_ack(method.delivery_tag)
                    if len(got) == count:
                        break
                opened.cancel()
            assert got == self.confirmed[name][:count]
            del self.confirmed[name][:count]

    def master(self, name: str, node: int = 0) -> int:
        """Index of the node that is master of a queue, as a node shows it."""
        master = str(queue(self, name, node)["node"])
        return [self.name(index) for index in range(NODES)].index(master)

    # -- stops and starts -----------------------------------------------------------------------

    def kill_all(self) -> None:
        """Kill all nodes at once: none sees another one go."""
        self._mark_logs()
        for index in range(NODES):
            self.freeze(index)
        for index in range(NODES):
            self.kill(index)

    def stop_all(self, *order: int) -> None:
        """Stop the nodes in good order, one after the other."""
        self._mark_logs()
        for index in order:
            self.stop(index)

    def _mark_logs(self) -> None:
        self._logged = [len(self.log(index)) for index in range(NODES)]

    def start_all(self, voter: int, server: int, *, alone: bool = False) -> None:
        """Start the nodes in the worst orders: `voter` starts first and takes part in elections only, until
        `server` serves clients; so does the third node if `server` is to be `alone`. Return when all serve
        clients and both queues have a master."""
        third = NODES - voter - server
        with ThreadPoolExecutor(NODES) as pool:
            starting = [self._begin_start(pool, voter)]
            # The node has decided to serve before it dials its peers: it heeds `stop_app` from now on.
            self._say(voter, "stop_app")
            if alone:
                starting.append(self._begin_start(pool, third))
                self._say(third, "stop_app")
                starting.append(self._begin_start(pool, server))
            else:
                starting += [self._begin_start(pool, server), self._begin_start(pool, third)]
            starting[-1 if alone else 1].result()
            for index in (voter, third) if alone else (voter,):
                self._say(index, "start_app")
            for started in starting:
                started.result()
        for name in QUEUES:
            for index in range(NODES):
                self._await_master(name, index)

    def start_two(self, first: int, second: int) -> None:
        with ThreadPoolExecutor(2) as pool:
            for started in [self._begin_start(pool, first), self._begin_start(pool, second)]:
                started.result()

    def _begin_start(self, pool: ThreadPoolExecutor, index: int) -> Future[None]:
        """Start a node, and return when it has dialled its peers."""
        said = len(self.log(index))
        starting = pool.submit(self.start, index)
        until(lambda: "link" in self.log(index)[said:] or starting.done(), f"node {index} dials its peers")
        return starting

    def _say(self, index: int, verb: str) -> None:
        call(Path(self.local.runtime_directory), self.name(index), Request(verb), PATIENCE_S)

    def _await_master(self, name: str, index: int) -> None:
        until(
            lambda: queue(self, name, index)["state"] == "running",
            lambda: f"queue {name} has a master: {queue(self, name, index)}",
        )

    # -- faults ---------------------------------------------------------------------------------

    def data(self, index: int) -> Path:
        return self.directory / self.name(index)

    def remove_journal(self, index: int) -> None:
        shutil.rmtree(self.data(index) / "journal")
        (self.data(index) / "journal").mkdir()

    def overwrite_journal(self, index: int) -> None:
        """Overwrite some bytes in the middle of the newest segment."""
        path = max((self.data(index) / "journal").glob("*.journal"))
        # The file is longer than what was written: the middle lies between the first and the last body.
        content = path.read_bytes()
        at = (content.find(b"." * 100) + content.rfind(b"." * 100)) // 2
        with path.open("r+b") as file:
            file.seek(at)
            file.write(GARBAGE)

    def copy(self, index: int, to: Path) -> None:
        """Copy a node's data directory, while it runs or not, as a snapshot of a virtual machine does."""
        shutil.copytree(self.data(index), to, ignore=shutil.ignore_patterns("log"))

    def put_back(self, index: int, copy: Path) -> None:
        """Replace a node's data by an earlier copy."""
        for path in self.data(index).iterdir():
            if path.name != "log":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(copy, self.data(index), dirs_exist_ok=True)

    # -- checks ---------------------------------------------------------------------------------

    def log(self, index: int) -> str:
        path = self.local.log_of(self.local.nodes[index])
        return path.read_text() if path.exists() else ""

    def logged(self, index: int) -> str:
        """Lines of a node's log since the last stop of all."""
        return self.log(index)[self._logged[index] if self._logged else 0 :]

    def metric(self, index: int, name: str) -> float:
        """Sample of a node's metrics, named with its labels."""
        address = f"http://127.0.0.1:{self.management_port(index)}/metrics"
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))

    def ask(self, path: str) -> Any:
        """Answer of the HTTP API of node 0."""
        address = f"http://127.0.0.1:{self.management_port(0)}/api/{path}"
        login = {"Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}"}
        with urllib.request.urlopen(
            urllib.request.Request(address, headers=login), timeout=PATIENCE_S
        ) as answer:
            return json.loads(answer.read())

    def check_fault(self, index: int, fault: str) -> None:
        """The fault of one node, and of no other, is in all logs, `cluster_status` and a metric."""
        name = self.name(index)
        words = {"replaced": "was replaced", "outdated": "is an older copy", "damaged": "is damaged"}[fault]
        for other in range(NODES):
            wanted = f"[warning] the journal of node {name} {words}: that node joins its rings unsynchronised"
            if other == index:
                wanted = f"[error] the journal of this node {words}: "
            until(lambda other=other, wanted=wanted: wanted in self.logged(other), wanted)  # type: ignore[misc]
            found = self.metric(other, f'mirrormq_journal_fault{{reason="{fault}"}}')
            assert found == (other == index)
        status = json.loads(self.ctl("--formatter", "json", "cluster_status"))
        assert [(row["node"], row["fault"]) for row in status["journal_faults"]] == [(name, fault)]
        shown = {row["name"]: row.get("journal_fault", "") for row in self.ask("nodes")}
        assert {node: found for node, found in shown.items() if found} == {name: fault}
        assert f"Journal Faults\n\nNode: {name}, fault: {fault}, " in self.ctl("cluster_status")

    def check_nothing_lost(self) -> None:
        """Consume everything and compare it with what was confirmed."""
        for index, name in enumerate(QUEUES):
            with channel(self, index) as opened:
                got = []
                while (found := opened.basic_get(name, auto_ack=True))[0] is not None:
                    got.append(found[2])
            wanted = self.confirmed[name]
            lost = len(set(wanted) - set(got))
            again = len(got) - len(set(got)) + len(set(got) - set(wanted))
            assert (lost, again) == (0, 0), f"{name}: {lost} of {len(wanted)} lost, {again} too many"
            assert got == wanted, f"{name}: out of order"
            wanted.clear()
