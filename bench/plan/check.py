"""Does `shoal plan` tell the truth? Its prediction beside a measurement, for a model that sleeps for compute.

    cargo xtask hosts up 4 --rate 1gbit --name check
    SHOAL_SSH_CONFIG=<as printed> python bench/plan/check.py --hosts check-0 check-1 check-2 check-3 --bandwidth 1gbit
    cargo xtask hosts down --name check

Without --hosts all workers run here. Bytes must be equal (to a millionth); seconds are printed for people to judge.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def description(shoal, model, batch, compute):
    """A built-in model whose steps compute for `compute` seconds, spread over the layers by their operations."""
    argv = [shoal, "plan", "--model", model, "--batch", str(batch), "--workers", "1", "--bandwidth", "1gbit", "--json"]
    known = json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)
    total = sum(layer["forward"] + layer["backward"] for layer in known["layers"])
    layers = []
    for layer in known["layers"]:
        weight = 1
        for side in layer["shape"]:
            weight *= side
        layers.append(
            {
                "name": layer["name"],
                "kind": layer["kind"],
                "shape": layer["shape"],
                "bias": layer["elements"] > weight,
                "forward_seconds": compute * layer["forward"] / total,
                "backward_seconds": compute * layer["backward"] / total,
            }
        )
    return {"model": model, "batch": batch, "layers": layers}


def measured(arguments, text):
    """What each worker reported, by rank."""
    with tempfile.TemporaryDirectory() as folder:
        argv = [arguments.shoal, "run", "-v", "-o", folder, "--cwd", "/", "--oversubscribe"]
        argv += ["-n", str(arguments.workers)]
        if arguments.hosts:
            fleet = Path(folder) / "fleet.yaml"
            fleet.write_text("hosts:\n" + "".join(f"  - {host}\n" for host in arguments.hosts))
            argv += ["-f", str(fleet)]
        # The hosts need not see this folder: the worker and the description travel on the command line.
        worker = f"import sys; sys.path[:0] = {arguments.path!r}\n" + (HERE / "worker.py").read_text()
        argv += ["--", arguments.python, "-u", "-c", worker, text, str(arguments.steps)]
        # Workers of one host would meet in memory and send nothing.
        argv += [] if arguments.hosts else ["apart"]
        run = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            sys.exit(f"the run failed:\n{run.stdout}{run.stderr}")
        logs = [log.read_text() for log in sorted(Path(folder).rglob("worker*.log"))]
    said = [json.loads(line) for log in logs for line in log.splitlines() if line.startswith("{")]
    return sorted(said, key=lambda worker: worker["rank"])


def predicted(arguments, text, conditions, use_sfb):
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.json"
        model.write_text(text)
        argv = [arguments.shoal, "plan", "--model", str(model), "--workers", str(arguments.workers), "--json"]
        # The rate of the link is what the hosts were given; without one, what was measured, which is goodput.
        rate = arguments.bandwidth or f"{conditions['bandwidth'] / 0.95 * 8:.0f}bit"
        argv += ["--bandwidth", rate, "--rtt", f"{conditions['round_trip'] * 1e6:.0f}us", "--use-sfb", use_sfb]
        argv += ["--per-host", str(conditions["per_host"]), "--flops", f"{conditions['flops']:.0f}"]
        return json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shoal", default="shoal", help="the program")
    parser.add_argument("--python", default=sys.executable, help="Python with numpy and shoal on the hosts")
    parser.add_argument("--path", action="append", default=[], help="a folder to import from, on the hosts")
    parser.add_argument("--hosts", nargs="*", default=[])
    parser.add_argument("--workers", type=int)
    parser.add_argument("--bandwidth", help="of the hosts' links; if not given, as measured")
    parser.add_argument("--model", default="vgg19")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--compute", type=float, default=0.75, help="seconds of forward and backward")
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    arguments.workers = arguments.workers or len(arguments.hosts) or 2

    text = json.dumps(description(arguments.shoal, arguments.model, arguments.batch, arguments.compute))
    workers = measured(arguments, text)
    conditions = workers[0]["measured"]
    print(f"{arguments.model}, batch {arguments.batch}, {len(workers)} workers, {arguments.compute} s of compute")
    link = ", ".join(f"{conditions[name] * 8 / 1e6:.0f} Mbit/s" for name in ("bandwidth", "gather_bandwidth"))
    speed = f"{conditions['round_trip'] * 1e3:.2f} ms; {conditions['flops'] / 1e9:.1f} GFLOP/s"
    print(f"measured: sums, gathers at {link}; {speed}")
    print(f"{'':10}{'seconds':>10}{'predicted':>11}{'ratio':>7}{'MB sent':>12}{'predicted':>12}")
    wrong = []
    speeds = [worker["flops"] for worker in workers if worker["flops"]]
    rows = (("dense", "dense", "false"), ("planned", "planned", "auto"), ("(hindsight)", "planned", "auto"))
    for row, mode, use_sfb in rows:
        if row == "(hindsight)":
            if not speeds:
                break
            # With the speed that products turned out to have, what is left is the error of the model.
            conditions = {**conditions, "flops": min(speeds)}
        forecast = predicted(arguments, text, conditions, use_sfb)
        seconds = max(worker[mode]["seconds"] for worker in workers)
        sent = sum(worker[mode]["sent"] for worker in workers) / len(workers)
        plan = forecast["planned"]
        row = f"{row:11}{seconds:9.3f}{plan['seconds']:11.3f}{seconds / plan['seconds']:7.2f}"
        print(f"{row}{sent / 1e6:12.4f}{plan['sent'] / 1e6:12.4f}")
        chosen = workers[0]["schemes"]
        others = [layer["name"] for layer in forecast["layers"] if layer["scheme"] != chosen[layer["name"]]]
        if mode == "planned" and others:
            # Near a tie, a link as measured decides otherwise than the link as given; then bytes differ too.
            print(f"the planner chose otherwise for {', '.join(others)}")
        # Workers that wait for long ask for whom, which is a few words beside the tensors.
        elif abs(sent - plan["sent"]) > 1e-6 * plan["sent"]:
            wrong.append(f"{mode}: sent {sent:.0f} bytes, predicted {plan['sent']:.0f}")
    print("\n".join(wrong) or "bytes are as predicted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
