"""HyperQueue, as `cargo xtask bench queue` drives it: a cluster in one process, a client in another.

The package brings no `hq` command, only this interface. It has no arrays: every task is described by itself.
`serve FOLDER` prints a line when the server is up, then for each line on stdin: `worker N` adds a worker with N CPUs.
`client FOLDER` answers each line on stdin with one of JSON: `make N` describes a job of N times /bin/true (not timed by anyone),
`submit` sends it, `wait` waits until it is done, `failed` asks which of its tasks failed. `ms` is what that call took.
Both end when stdin does.
"""

import json
import sys
import time


def say(**what):
    print(json.dumps(what), flush=True)


def serve(folder):
    from hyperqueue.cluster import LocalCluster, WorkerConfig

    with LocalCluster(server_dir=folder) as cluster:
        say(server_dir=str(cluster.cluster.server_dir))
        for line in sys.stdin:
            cluster.start_worker(WorkerConfig(cores=int(line.split()[1])))
            say(done=True)


def client(folder):
    from hyperqueue import Client, Job

    # Its progress bar is not what is measured.
    import hyperqueue.client

    hyperqueue.client.create_progress_callback = lambda: lambda jobs: None
    client = Client(folder)
    job = submitted = None
    say(done=True)
    for line in sys.stdin:
        verb, *words = line.split()
        began = time.monotonic()
        if verb == "make":
            job = Job(default_workdir=folder)
            for _ in range(int(words[0])):
                job.program(["/bin/true"], stdout=None, stderr=None)
        elif verb == "submit":
            submitted = client.submit(job)
        elif verb == "wait":
            client.wait_for_jobs([submitted])
        elif verb == "failed":
            client.get_failed_tasks(submitted)
        say(ms=(time.monotonic() - began) * 1e3)


if __name__ == "__main__":
    {"serve": serve, "client": client}[sys.argv[1]](sys.argv[2])
