"""A stand-in for the program `shoal`: notes how it was called, and answers what a test says."""

import json
import os
import stat
import sys
from pathlib import Path

SCRIPT = """#!{python}
import json, os, sys, time
folder = {folder!r}
asked = dict(argv=sys.argv[1:], cwd=os.getcwd(), stdin="" if sys.stdin is None else sys.stdin.read())
if "sweep" in sys.argv and asked["stdin"]:
    # What is only there while it runs.
    trees = json.loads(asked["stdin"])["source"]
    asked["files"] = {{t["at"]: open(t["path"]).read() for t in trees if os.path.isfile(t["path"])}}
with open(os.path.join(folder, "asked.jsonl"), "a") as file:
    file.write(json.dumps(asked) + "\\n")
answers = json.load(open(os.path.join(folder, "answers.json")))
queue = answers.get(sys.argv[1], [dict(out="", code=0)])
answer = queue[0]
if len(queue) > 1:
    answers[sys.argv[1]] = queue[1:]
    json.dump(answers, open(os.path.join(folder, "answers.json"), "w"))
time.sleep(answer.get("sleep", 0))
sys.stdout.write(answer.get("out", ""))
sys.stderr.write(answer.get("err", ""))
sys.exit(answer.get("code", 0))
"""


class Shoal:
    """The program, in a folder of its own. ``answers``: verb -> what it says, one after the other, the last for good."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.program = folder / "shoal"
        self.program.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)))
        self.program.chmod(self.program.stat().st_mode | stat.S_IXUSR)
        self.answer()

    def answer(self, **answers):
        texts = {}
        for verb, several in {"ps": {"sweeps": [], "runs": []}, **answers}.items():
            several = several if isinstance(several, list) else [several]
            texts[verb] = [a if "out" in a or "code" in a else {"out": json.dumps(a)} for a in several]
        (self.folder / "answers.json").write_text(json.dumps(texts))

    def asked(self):
        path = self.folder / "asked.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def said(self, verb):
        return [asked["argv"] for asked in self.asked() if asked["argv"][0] == verb]

    def sweeps(self):
        return [json.loads(asked["stdin"]) for asked in self.asked() if asked["argv"][0] == "sweep"]


def clean_env(**more):
    """The environment without what says where a queue or a run is."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("SHOAL_", "LUDWIG_"))} | {
        k: str(v) for k, v in more.items()
    }
