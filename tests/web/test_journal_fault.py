"""A node whose journal was removed: the page names the fault, and the copy that is not trusted."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.mirrored_processes.disk_faults import FaultyCluster
from tests.mirrored_processes.range_requests import drain, publish, queue
from tests.waiting import until
from tests.web.watching import watched_page


def test_the_page_names_the_node_and_its_copy_until_it_is_synchronised(browser: Browser) -> None:
    with FaultyCluster() as cluster:
        cluster.ctl("set_policy", "manual", "^manual$", '{"ha-mode":"all"}', "--apply-to", "queues")
        publish(cluster, "manual", b"kept")
        cluster.kill(0)
        cluster.remove_journal(0)
        cluster.start(0)
        faulty = cluster.name(0)
        until(lambda: queue(cluster, "manual", 1)["mirrormq"]["untrusted"] == [faulty], "the fault is known")
        with watched_page(browser, cluster.management_port(1)) as watched:
            watched.log_in()
            watched.go("cluster")
            notice = watched.page.locator(".troubles li").filter(has_text=faulty)
            expect(notice).to_have_text(f"{faulty}: journal replaced")
            row = watched.page.get_by_role("row").filter(has=watched.page.get_by_role("link", name=faulty))
            expect(row.first).to_contain_text("journal replaced")
            watched.go("queues/%2F/manual")
            member = watched.page.locator(".ring-list li").filter(has_text=faulty)
            expect(member).to_contain_text("journal fault, copy not trusted")
            cluster.ctl("sync_queue", "manual")
            expect(member).not_to_contain_text("not trusted")
        assert drain(cluster, "manual") == [b"kept"]
