# SPDX-License-Identifier: Apache-2.0
"""The network below NCCL: real libfabric, and a stand-in for libibverbs.

What programs print is the same with and without the library, and what the trace says is what they
did.
"""
import collections
import json
import os
import random
import re
import shutil
import socket

import harness

OPS = os.path.join(harness.BUILD, "tests/fabric/fabric_ops")
VERBS = os.path.join(harness.BUILD, "tests/fabric/verbs_ops")
CONFORM = os.path.join(harness.BUILD, "tests/fabric/fabric_conform")
MIB = 1 << 20
# The test runner puts the stand-ins on it; programs for the real libraries must not find them.
os.environ.pop("LD_LIBRARY_PATH", None)
COUNTS = ("sends", "send_bytes", "writes", "write_bytes", "reads", "read_bytes", "receives",
          "completions", "errors", "timed")


def preloaded(scratch, **more):
    return {"LD_PRELOAD": harness.LIBRARY, "NCCLSPY_DIR": scratch.traces, "NCCLSPY_QUIET": "1",
            "NCCLSPY_FABRIC": "all", **more}


def dump(scratch):
    done = scratch.run([harness.ANALYZE, "dump", "--json", scratch.traces]).ok()
    return [json.loads(line) for line in done.out.splitlines()]


def findings(scratch):
    done = scratch.run([harness.ANALYZE, "report", "--json", "--fail-on", "none", scratch.traces])
    return json.loads(done.ok().out)["jobs"][0]["findings"]


def traffic(records):
    """{rank: sums of the counters}"""
    sums = collections.defaultdict(collections.Counter)
    for record in records:
        if record["kind"] == "traffic":
            for name in COUNTS:
                sums[record["rank"]][name] += int(record[name])
    return sums


# --- fi_pingpong ---

def free_port():
    """Below the range the kernel gives away: other tests make connections all the time."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as table:
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
                   for line in table.readlines()[1:])


def without_times(text):
    """The columns that say what was transferred."""
    return [line.split()[:4] for line in text.splitlines()]


def pingpong(scratch, provider, endpoint, count, environment):
    port = free_port()
    command = ["fi_pingpong", "-p", provider, "-e", endpoint, "-I", str(count), "-S", "1024"]
    server = scratch.start(command + ["-B", str(port)], {**environment, "RANK": "0"})
    harness.wait_for(lambda: listens(port) or server.poll() is not None, "the server to listen")
    client = scratch.run(command + ["-P", str(port), "127.0.0.1"], {**environment, "RANK": "1"})
    return [scratch.finish(server), client]


def by_domain(records):
    """{(rank, domain, provider): sums of the counters}"""
    rails = {(record["rank"], record["id"]): (record["domain"], record["provider"])
             for record in records if record["kind"] == "rail"}
    peers = {(record["rank"], record["id"]): (record["rank"], record["rail"])
             for record in records if record["kind"] == "peer"}
    sums = collections.defaultdict(collections.Counter)
    for record in records:
        if record["kind"] == "traffic":
            domain = rails[peers[record["rank"], record["peer"]]]
            for name in COUNTS:
                sums[(record["rank"], *domain)][name] += int(record[name])
    return sums


def check_pingpong(scratch, provider, endpoint, injects):
    count = 20
    if not shutil.which("fi_pingpong"):
        raise harness.Skip("fi_pingpong is not installed")
    plain = pingpong(scratch, provider, endpoint, count, {})
    if plain[0].status or plain[1].status:
        raise harness.Skip(f"{provider} does not work here: {plain[0]}")
    watched = pingpong(scratch, provider, endpoint, count, preloaded(scratch))
    for before, after in zip(plain, watched):
        assert (before.status, before.err, without_times(before.out)) == \
            (after.status, after.err, without_times(after.out)), f"{before}\n{after}"
        # What it says itself: so many of 1 KiB sent, so many received.
        assert without_times(after.out)[1][:3] == ["1k", str(count), f"={count}"], str(after)
    records = dump(scratch)
    sums = traffic(records)
    assert sorted(sums) == [0, 1], sums
    domains = {key: one for key, one in by_domain(records).items() if one["completions"]}
    # Each used one domain, and that has all of it.
    assert sorted(key[0] for key in domains) == [0, 1], domains
    for (rank, domain, name), one in domains.items():
        assert domain and provider in name and one == sums[rank], (rank, domain, name, one)
    for one in sums.values():
        # One more at the end, of four bytes, tells the other side that it is over.
        assert one["sends"] == count + 1 and one["send_bytes"] == count * 1024 + 4, one
        # A datagram's receive is posted ahead.
        assert one["receives"] in (count + 1, count + 2), one
        # What is injected has no completion.
        assert one["completions"] == count + 1 + (1 if injects else count + 1), one
        assert one["errors"] == 0, one


def test_pingpong_tcp(scratch):
    check_pingpong(scratch, "tcp", "msg", False)


def test_pingpong_tcp_rdm(scratch):
    check_pingpong(scratch, "tcp", "rdm", False)


def test_pingpong_udp(scratch):
    check_pingpong(scratch, "udp", "dgram", True)


def test_pingpong_shm(scratch):
    check_pingpong(scratch, "shm", "rdm", True)


def test_pingpong_sockets(scratch):
    check_pingpong(scratch, "sockets", "rdm", False)


# --- every call ---

def both(scratch, command, **more):
    """Runs it without and with the library; they must agree. The output, or Skip."""
    harness.need(command[0])
    plain = scratch.run(command, more)
    if plain.status == harness.SKIP_STATUS:
        raise harness.Skip("the provider is not there")
    plain.ok()
    watched = scratch.run(command, preloaded(scratch, **more))
    assert (plain.status, plain.out, plain.err) == (watched.status, watched.out, watched.err), \
        f"{plain}\n{watched}"
    return plain.out


def check_every_call(scratch, provider):
    rounds = 4
    both(scratch, [OPS, provider, rounds])
    records = dump(scratch)
    sums = traffic(records)[-1]
    sent = 6 + 6  # a round's messages, plain and tagged; two of each are small
    assert sums["sends"] == rounds * sent, sums
    assert sums["send_bytes"] == rounds * (8 * 8192 + 4 * 32), sums
    assert sums["receives"] == rounds * sent, sums
    assert sums["writes"] == rounds * 4 and sums["reads"] == rounds * 3, sums
    assert sums["write_bytes"] == rounds * (3 * 8192 + 32), sums
    assert sums["read_bytes"] == rounds * 3 * 8192, sums
    # Injected operations have none, and nobody is told of remote accesses.
    assert sums["completions"] == rounds * (8 + 12 + 6), sums
    assert sums["timed"] == rounds * (8 + 6), sums
    assert sums["errors"] == 0, sums
    memory = [record for record in records if record["kind"] == "memory"][-1]
    assert memory["layer"] == "libfabric" and memory["live"] == 0, memory
    assert memory["registrations"] >= 3, memory
    rail = [record for record in records if record["kind"] == "rail"][-1]
    assert rail["sight"] == "seen" and provider in rail["provider"], rail
    assert findings(scratch) == []


def test_every_call_sockets(scratch):
    check_every_call(scratch, "sockets")


def test_every_call_tcp(scratch):
    check_every_call(scratch, "tcp;ofi_rxm")


def test_every_call_shm(scratch):
    check_every_call(scratch, "shm")


def test_error_of_a_completion(scratch):
    text = both(scratch, [OPS, "sockets", "too-long"], RANK="3")
    assert "error 265" in text, text
    found = findings(scratch)
    assert [(f["id"], [c["rank"] for c in f["culprits"]]) for f in found] == \
        [("FABRIC_CQ_ERROR", [3])], found
    assert " on lo" in found[0]["summary"] and "truncation" in found[0]["summary"], found


def test_error_is_told_at_once(scratch):
    harness.need(OPS)
    environment = preloaded(scratch, RANK="3")
    del environment["NCCLSPY_QUIET"]
    done = scratch.run([OPS, "sockets", "too-long"], environment)
    if done.status == harness.SKIP_STATUS:
        raise harness.Skip("the provider is not there")
    assert re.search(r"\[FAIL\] FABRIC_CQ_ERROR: rank 3 ", done.ok().err), str(done)
    assert "FABRIC_PEER_UNREACHABLE" not in done.err, str(done)


def test_nobody_there(scratch):
    both(scratch, [OPS, "sockets", "lost"], RANK="3")
    found = findings(scratch)
    assert [f["id"] for f in found] == ["FABRIC_CQ_ERROR"], found
    assert "127.0.0.1:1" in found[0]["summary"], found


def test_other_providers_are_left_alone(scratch):
    """By default sockets are not looked into, and libfabric alone does not wake the recorder."""
    harness.need(OPS)
    environment = preloaded(scratch)
    del environment["NCCLSPY_FABRIC"]
    done = scratch.run([OPS, "sockets", "1"], environment)
    if done.status == harness.SKIP_STATUS:
        raise harness.Skip("the provider is not there")
    done.ok()
    assert not os.path.exists(scratch.traces)


def test_off(scratch):
    harness.need(OPS)
    done = scratch.run([OPS, "sockets", "1"], preloaded(scratch, NCCLSPY="0"))
    if done.status == harness.SKIP_STATUS:
        raise harness.Skip("the provider is not there")
    done.ok()
    assert not os.path.exists(scratch.traces)


# --- the same arguments, results and errno ---

def conform(scratch, **more):
    """With the providers of the default; the program calls NCCL, which wakes the recorder."""
    harness.need(CONFORM)
    plain = scratch.run([CONFORM], more)
    if plain.status == harness.SKIP_STATUS:
        raise harness.Skip("no place for the structures")
    environment = preloaded(scratch, RANK="2", **more)
    del environment["NCCLSPY_FABRIC"]
    watched = scratch.run([CONFORM], environment)
    assert (plain.ok().out, plain.err) == (watched.ok().out, watched.err), f"{plain}\n{watched}"
    return dump(scratch)


def test_conform(scratch):
    records = conform(scratch)
    rail = [record for record in records if record["kind"] == "rail"][-1]
    assert (rail["provider"], rail["nic"], rail["sight"]) == ("efa", "rdmap0s6", "seen"), rail
    assert rail["bits_per_s"] == 100e9 and rail["domains"] == 0, rail
    sums = traffic(records)[2]
    # Twice: send, inject, senddata, injectdata; tsend, tsendv, tinject, tsenddata, tinjectdata,
    # tsendmsg; and one after a close that was refused.
    assert sums["sends"] == 2 * (4 + 6 + 1), sums
    assert sums["writes"] == 2 * 6 and sums["reads"] == 2 * 3, sums
    assert sums["receives"] == 2 * (1 + 3), sums
    # One that fi_cq_sread gave, told apart by its context: senddata's.
    assert sums["completions"] == 2 and sums["timed"] == 2, sums
    # recvv and sendmsg were refused, an entry was in error.
    assert sums["errors"] == 2 * 3, sums
    memory = [record for record in records if record["kind"] == "memory"][-1]
    # The cached one is counted once and was given back once of twice.
    assert (memory["registrations"], memory["no_memory"], memory["live"]) == (7, 4, 1), memory
    events = collections.Counter(r["event"] for r in records if r["kind"] == "net_event")
    assert events["registration_failed"] == 4 and events["completion_error"] == 2, events
    asked = [r for r in records if r.get("event") == "getinfo"]
    assert len(asked) == 16 and asked[1]["error"] == 61, asked


def told(scratch, command, **more):
    """What is said on stderr at once."""
    environment = preloaded(scratch, **more)
    del environment["NCCLSPY_QUIET"], environment["NCCLSPY_FABRIC"]
    done = scratch.run(command, environment)
    if done.status == harness.SKIP_STATUS:
        raise harness.Skip("no place for the structures")
    return re.findall(r"\[FAIL\] (FABRIC\w+|RDMA\w+): (.*)", done.ok().err)


def test_unreachable_is_told_at_once(scratch):
    """Of the errors that the stand-in answers with one is ENETUNREACH."""
    harness.need(CONFORM)
    found = dict(told(scratch, [CONFORM], RANK="2"))
    assert found["FABRIC_PEER_UNREACHABLE"].startswith("rank 2 ("), found
    assert " on rdmap0s6" in found["FABRIC_PEER_UNREACHABLE"], found
    finding = [f for f in findings(scratch) if f["id"] == "FABRIC_PEER_UNREACHABLE"]
    assert [c["rank"] for f in finding for c in f["culprits"]] == [2], finding


def test_refused_registration_is_told_at_once(scratch):
    harness.need(VERBS)
    found = told(scratch, [VERBS, "4096", str(2 * MIB)], RANK="5",
                 NSPY_FAKE_VERBS=f"{MIB}:12")
    assert [name for name, _ in found] == ["RDMA_REG_MR_FAILED"], found
    assert found[0][1].startswith("rank 5 (") and "of 2 MiB" in found[0][1], found


def test_constant_tables_are_left_alone(scratch):
    """A store into them would end the process."""
    records = conform(scratch, NSPY_FAKE_FABRIC="const:verbs")
    rail = [record for record in records if record["kind"] == "rail"][-1]
    assert (rail["provider"], rail["sight"]) == ("verbs", "constant_tables"), rail
    assert not traffic(records), records


def test_provider_that_is_not_asked_for(scratch):
    records = conform(scratch, NSPY_FAKE_FABRIC="tcp;ofi_rxm")
    rail = [record for record in records if record["kind"] == "rail"][-1]
    assert (rail["provider"], rail["sight"]) == ("tcp;ofi_rxm", "not_asked"), rail
    assert not traffic(records), records


# --- verbs ---

def verbs_memory(scratch):
    return [record for record in dump(scratch) if record["kind"] == "memory"][-1]


def test_verbs(scratch):
    both(scratch, [VERBS, "4096", str(MIB)])
    memory = verbs_memory(scratch)
    # Six ways of registering and one that is changed, for two sizes; the old interface's are not
    # known to be given back.
    assert (memory["layer"], memory["registrations"], memory["live"]) == ("verbs", 14, 2), memory
    assert memory["failures"] == 0 and memory["largest"] == MIB, memory
    assert findings(scratch) == []


def test_verbs_refused(scratch):
    """The root user may lock what it likes: then the limit is not the reason, whatever it is."""
    text = both(scratch, [VERBS, "4096", str(2 * MIB)], NSPY_FAKE_VERBS=f"{MIB}:12", RANK="5")
    assert "refused, errno 12" in text, text
    found = findings(scratch)
    assert [(f["id"], [c["rank"] for c in f["culprits"]]) for f in found] == \
        [("RDMA_REG_MR_FAILED", [5])], found
    event = [r for r in dump(scratch) if r.get("event") == "registration_failed"][0]
    may_lock = event["values"][4] == 1
    words = "not for the limit" if may_lock or event["values"][1] > 1e18 else "limit"
    assert words in found[0]["summary"], found
    assert "ibv_reg_mr(2.0 MiB)" in found[0]["summary"], found


def test_verbs_probing(scratch):
    """Other errors are how providers find out what works."""
    both(scratch, [VERBS, "4096", str(2 * MIB)], NSPY_FAKE_VERBS=f"{MIB}:95")
    assert verbs_memory(scratch)["failures"] >= 6
    assert findings(scratch) == []


harness.main(globals())
