"""Compare what a commit and the working tree compute, write and say, on the same
machine.

    python .ci/net.py COMMIT            # all parts
    python .ci/net.py COMMIT pixels     # some of them

It needs an environment with the extra `test`. Each part runs once with the files of the
commit and once with those of the working tree. Every output that differs is a line, and
the exit code is 1 if there is one. Times are left out.
"""

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TRAINING = (
    "--epochs 8 --model wrn-10-1 --image-size 8 --train-size 60 --batch-size 20"
    " --device cpu"
)
SEARCHES = {
    "race": "--algorithm race",
    "lookahead": "--algorithm lookahead",
    "hba": "--algorithm hba --sharing first-bn",
    "hba of the paper": "--paper",
    "fixed-noise": "--algorithm fixed-noise",
    "hyper-population": "--algorithm hyper-population",
    "population": "--algorithm population",
    "joint": "--algorithm joint",
    "stn": "--algorithm stn --warm-up-epochs 2 --learning-rate 0.01",
    "delta-stn": "--algorithm delta-stn --warm-up-epochs 2",
    "tuned dropout": "--algorithm stn --warm-up-epochs 2 --tune dropout",
    "operations of the paper": "--algorithm lookahead --space hba",
}
TEXT = "--epochs 4 --batch-size 10 --width 8 --sequence-length 10 --device cpu"
RECIPES = (
    "none",
    "randaugment",
    "trivialaugment",
    "autoaugment",
    "photo",
    "oriented",
    "overhead",
    "overhead-randaugment",
    "timm",
)
SHIPPED = ("digits", "cifar10-copy")
EXPORTS = ("torchvision", "kornia", "albumentations", "json")
AUTO = (
    "--epochs 4 --model simple-cnn-4 --image-size 8 --batch-size 20 --learning-rate"
    " 0.02 --no-fast --seeds 2 --jobs 1 --budget 280s --device cpu"
)
MISTAKES = (
    "search digits --epochs 0",
    "search digits --model resnet-7",
    "search digits --model wrn-11-1",
    "search digits --device tpu-9",
    "search digits --learning-rate nan",
    "search digits --image-size 4",
    "search digits --train-size 500 --val-size 1900",
    "search digits --operations Rotate,Swirl",
    "search digits --operations ,",
    "search digits --operations all,-Rotat",
    "search digits --start Rotate=1.5",
    "search digits --start Rotate",
    "search digits --range Rotate=15",
    "search digits --tune dropout --start Rotate=0.5",
    "search digits --fill red",
    "search digits --batch-size 2001",
    "search digits --preset digit",
    "search digits --paper --algorithm lookahead",
    "search digits --algorithm population --val-steps 2",
    "search digits --tune swirl",
    "search digits --budget 1h --epochs 3",
    "search --config nowhere.json",
    "search --resume",
    "search --resume --out nowhere",
    "search cifr10",
    "search nowhere",
    "search-text nowhere",
    "search-text",
    "evaluate digits --resume",
    "evaluate digits --jobs 0",
    "evaluate digits --against strat",
    "evaluate phto digits",
    "evaluate",
    "auto nowhere",
    "auto digits --budget 90",
    "auto digits --budget 1s",
    "auto --resume",
    "show digts",
    "export digits --to json --epoch 1 --average",
    "export digits --to nothing",
    "import nowhere.txt --from pba --epochs 2 --out b.json",
    "apply digits nowhere.png --out b.png",
    "predict nowhere a.png",
    "train digits nowhere",
    "doctor --device tpu",
    "nonsense",
)

Outputs = dict[str, Any]


def command(line: str) -> tuple[int, str]:
    """Exit code and output of a command of hba, run in this process."""
    from click.testing import CliRunner
    from hba.cli import main

    result = CliRunner().invoke(main, line.split())
    return result.exit_code, result.output.replace(str(Path.cwd()), "FOLDER")


def digest(value: Any) -> str:
    """A short hash of an array's bytes, its shape and its type."""
    import numpy as np

    array = np.ascontiguousarray(value)
    header = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(header + array.tobytes()).hexdigest()[:12]


def searches() -> Outputs:
    import hba

    outputs: Outputs = {}
    for name, options in SEARCHES.items():
        out = Path("searches", name.replace(" ", "-"))
        code, text = command(
            f"search digits {TRAINING} --val-size 30 {options} --out {out}"
        )
        policy = hba.load_policy(out).values.tolist() if code == 0 else text
        outputs[name] = policy
    for split, n_words in {"train": 4000, "valid": 1000, "test": 1000}.items():
        words = [f"w{number * number % 37}" for number in range(n_words)]
        Path(f"{split}.txt").write_text(" ".join(words))
    code, text = command(f"search-text . {TEXT} --out searches/text")
    outputs["language model"] = (
        hba.load_policy("searches/text").values.tolist() if code == 0 else text
    )
    return outputs


def evaluation() -> Outputs:
    rows = ",".join(RECIPES)
    code, text = command(
        f"evaluate digits digits {TRAINING} --against {rows} --seeds 2 --jobs 1 --out"
        " evaluation"
    )
    if code != 0:
        return {"evaluation": text}
    results = json.loads(Path("evaluation", "results.json").read_text("utf-8"))
    return {
        row["name"]: [row["test_error_percent"], row["test_loss"]]
        for row in results["rows"]
    }


def auto() -> Outputs:
    import hba

    code, text = command(f"auto digits {AUTO} --out auto")
    if code != 0:
        return {"auto": text}
    record = json.loads(Path("auto", "auto.json").read_text("utf-8"))
    answer = [line for line in text.splitlines() if line.startswith("Use ")]
    return {
        "policy": hba.load_policy("auto").values.tolist(),
        "chosen": record["chosen"],
        "rows": [[row["name"], row["losses"]] for row in record["rows"]],
        "answer": answer,
    }


def pixels() -> Outputs:
    """What every recipe does to images, by every player and export."""
    import numpy as np
    import torch
    from PIL import Image

    import hba

    random = np.random.default_rng(0)
    arrays = random.integers(0, 256, (16, 24, 24, 3), dtype=np.uint8)
    arrays[:8] = np.asarray(
        [
            np.asarray(Image.fromarray(image).resize((6, 6)).resize((24, 24)))
            for image in arrays[:8]
        ]
    )
    images = [Image.fromarray(image) for image in arrays]
    batch = torch.from_numpy(arrays).permute(0, 3, 1, 2).contiguous()
    outputs: Outputs = {}
    for name in (*RECIPES, *SHIPPED):
        schedule = hba.load_policy(name)
        transform = schedule.transform()
        torch.manual_seed(3)
        outputs[f"{name}, transform"] = digest(
            [np.asarray(transform(image)) for image in images]
        )
        policy = schedule.policy(schedule.epochs - 1)
        for kind, values in (("bytes", batch), ("floats", batch / 255)):
            generator = torch.Generator().manual_seed(5)
            augmented = policy(values, generator=generator)
            outputs[f"{name}, Policy on {kind}"] = digest(augmented.numpy())
        for target in EXPORTS:
            outputs[f"{name}, {target}"] = exported(name, target, images, batch)
    return outputs


def exported(name: str, target: str, images: list[Any], batch: Any) -> str:
    """What an exported file makes of images, or the line that refuses the export."""
    import numpy as np
    import torch

    stem = f"{name}_{target}".replace("-", "_")
    out = Path(f"{stem}.{'py' if target in ('torchvision', 'kornia') else 'json'}")
    code, text = command(f"export {name} --to {target} --out {out}")
    if code != 0:
        return text
    if target in ("json", "albumentations"):
        # The order of names is part of it, and what wrote it is not.
        content = json.loads(out.read_text("utf-8"))
        content.pop("provenance", None)
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(stem, out)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    spec.loader.exec_module(module)
    torch.manual_seed(7)
    if target == "torchvision":
        transform = module.transform()
        return digest([np.asarray(transform(image)) for image in images])
    return digest(module.policy()(batch / 255).numpy())


def messages() -> Outputs:
    return {line: command(line) for line in MISTAKES}


PARTS: dict[str, Callable[[], Outputs]] = {
    "messages": messages,
    "pixels": pixels,
    "searches": searches,
    "evaluation": evaluation,
    "auto": auto,
}


def write_outputs(part: str, file: Path) -> None:
    """Run one part with the hba of PYTHONPATH in a folder of its own."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        outputs = PARTS[part]()
    file.write_text(json.dumps(outputs), encoding="utf-8")


def outputs_of(part: str, tree: Path, file: Path) -> Outputs:
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, __file__, "--write", part, str(file)],
        env=environment,
        cwd=tree,
        check=True,
    )
    outputs: Outputs = json.loads(file.read_text("utf-8"))
    return outputs


def unpack(commit: str, folder: Path) -> None:
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def without_times(value: Any) -> str:
    return re.sub(
        r"\d+(\.\d+)? ?(s|min|h)\b", "TIME", json.dumps(value, sort_keys=True)
    )


def main(commit: str, *parts: str) -> int:
    n_different = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before_tree = folder / "before"
        unpack(commit, before_tree)
        for part in parts or PARTS:
            before = outputs_of(part, before_tree, folder / "before.json")
            after = outputs_of(part, ROOT, folder / "after.json")
            different = [
                key
                for key in sorted({*before, *after})
                if without_times(before.get(key)) != without_times(after.get(key))
            ]
            n_different += len(different)
            print(f"{part}: {len(before)} outputs, {len(different)} differ", flush=True)
            for key in different:
                outputs = (
                    f"  {key}\n    before: {before.get(key)}\n"
                    f"    after:  {after.get(key)}"
                )
                print(outputs[:1000], flush=True)
    return int(n_different > 0)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write_outputs(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main(*sys.argv[1:]))
