"""Makes PyTorch's ordinary wheel importable without its 2.5 GB of CUDA libraries, which Gloo on CPUs never calls.

The index has no CPU build, and that wheel links to CUDA. Where a library is missing, an empty one of the same name is
made beside torch's own, in which every symbol that torch asks for exists and says "error" when called.
Argument: the folder `site-packages`. Needs cc, readelf and nm.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile

CUDA = re.compile(r"lib(cu|nv|nccl)\w*\.so\.\d+$")
# Libraries whose symbols bear no version that names the library.
BY_PREFIX = {
    "libnccl.so.2": "pnccl nccl",
    "libcusparseLt.so.0": "cusparseLt",
    "libcufile.so.0": "cuFile",
    "libnvshmem_host.so.3": "nvshmem",
}
DRIVER = "libcuda.so.1"  # Loaded on demand only.


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wanted(torch_libraries):
    """Names of the CUDA libraries that torch needs, each with the symbols (and their version) that torch takes from it."""
    needed, own, symbols = set(), set(), collections.defaultdict(set)
    for file in torch_libraries:
        needed |= {name for name in re.findall(r"\(NEEDED\).*\[(.*?)\]", output("readelf", "-dW", file)) if CUDA.match(name)}
        for line in output("nm", "-D", file).splitlines():
            kind, symbol = line.split()[-2:]
            name, _, version = symbol.partition("@")
            if kind not in "Uwv":
                own.add(name)
            elif CUDA.match(version):
                symbols[version].add((name, version))
            else:
                for library, prefixes in BY_PREFIX.items():
                    if name.startswith(tuple(prefixes.split())):
                        symbols[library].add((name, version))
    return {library: {pair for pair in symbols[library] if pair[0] not in own} for library in needed - {DRIVER}}


def make(file, symbols):
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "versions")
        source.write_text("".join(f"int {name}(void) {{ return 1; }}\n" for name in sorted({name for name, _ in symbols})))
        versions = {version for _, version in symbols if version}
        # The loader checks versions by file: the stub must define the one that torch's symbols bear.
        script.write_text("".join(f"{version} {{ global: *; }};\n" for version in versions))
        flags = [f"-Wl,--version-script={script}"] if versions else []
        output("cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{file.name}", *flags, "-o", str(file), str(source))


def main(site):
    folder = site / "torch/lib"
    present = {file.name for file in site.glob("nvidia/**/lib*.so*")} | {file.name for file in folder.iterdir()}
    for library, symbols in sorted(wanted(sorted(folder.glob("*.so*"))).items()):
        if library not in present:
            make(folder / library, symbols)


main(pathlib.Path(sys.argv[1]))
