"""The Hugging Face libraries with the device: loading, pipelines, Trainer, accelerate and safetensors. Nothing is downloaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import accelerate
import numpy
import pytest
import safetensors.torch
import tokenizers
import torch
import transformers
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tests.conformance._architectures import ARCHITECTURES
from tests.conformance._training import assert_close
from tests.emulated import DEVICE

WORDS = "the a core tensor engine runs adds moves waits fast slow twice and then on with no memory".split()


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def _fresh_accelerate() -> Iterator[None]:
    """accelerate keeps the device of the first Accelerator for the process."""
    yield
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def tokenizer() -> Any:
    """A word is a token."""
    special = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate([*special, *WORDS])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "bos", "eos", "unk", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **names)


def model(name: str) -> Any:
    torch.manual_seed(0)
    return ARCHITECTURES[name].model().eval()


def ids() -> Tensor:
    return torch.tensor([[6, 7, 8, 9, 10]])


@pytest.mark.parametrize("place", [{"device_map": DEVICE}, {"device_map": {"": "neuron:1"}}], ids=str)
def test_from_pretrained_puts_weights_on_the_device(tmp_path: Path, place: dict[str, Any]) -> None:
    here = model("llama")
    here.save_pretrained(tmp_path)
    there = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, **place)
    assert {p.device.type for p in there.parameters()} == {DEVICE}
    torch.testing.assert_close(there(ids().to(there.device)).logits.cpu(), here(ids()).logits, rtol=1e-4, atol=1e-5)


def test_a_model_is_spread_over_two_cores_and_the_host(tmp_path: Path) -> None:
    here = model("llama")
    here.save_pretrained(tmp_path)
    place = {
        "model.embed_tokens": 0,
        "model.rotary_emb": 0,
        "model.layers.0": 0,
        "model.layers.1": 1,
        "model.norm": 1,
        "lm_head": "cpu",
    }
    there = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map=place)
    assert there.model.layers[1].mlp.up_proj.weight.device == torch.device("neuron:1")
    torch.testing.assert_close(there(ids()).logits.cpu(), here(ids()).logits, rtol=1e-4, atol=1e-5)


def test_from_pretrained_in_another_precision(tmp_path: Path) -> None:
    model("gpt2").save_pretrained(tmp_path)
    there, here = (
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, device_map=device, dtype=torch.bfloat16)
        for device in (DEVICE, "cpu")
    )
    assert {p.dtype for p in there.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(there(ids().to(DEVICE)).logits.cpu(), here(ids()).logits, rtol=2e-2, atol=2e-2)


def test_a_model_on_the_device_is_saved_as_one_of_the_cpu(tmp_path: Path) -> None:
    here = model("bert")
    here.to(DEVICE).save_pretrained(tmp_path)
    again = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path)
    assert_close(again.state_dict(), {name: value.cpu() for name, value in here.state_dict().items()})


def test_safetensors_go_to_the_device_and_back(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    want = {
        "f": torch.randn(3, 4),
        "b": torch.randn(5).bfloat16(),
        "i": torch.arange(6),
        "m": torch.tensor([True, False]),
    }
    safetensors.torch.save_file({name: value.to(DEVICE) for name, value in want.items()}, file)
    # safetensors knows no "neuron" by name; a number is a core of it.
    got = safetensors.torch.load_file(file, device=0)
    assert {value.device for value in got.values()} == {torch.device("neuron:0")}
    for name, value in want.items():
        assert torch.equal(got[name].cpu(), value)
    with safetensors.safe_open(file, framework="pt", device=1) as opened:
        assert opened.get_tensor("f").device == torch.device("neuron:1")
        assert torch.equal(opened.get_slice("f")[1:].cpu(), want["f"][1:])


PIPELINES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "fill-mask": ("bert", lambda pipe: pipe("the core [MASK] fast", top_k=3)),
    "text-generation": ("gpt2", lambda pipe: pipe("the core", max_new_tokens=3, do_sample=False)),
    "text-classification": ("roberta", lambda pipe: pipe(["the core runs", "a tensor"], batch_size=2)),
    "token-classification": ("electra", lambda pipe: pipe("the core runs")),
    "feature-extraction": ("bert", lambda pipe: pipe("the core runs", return_tensors=True)),
}


@pytest.mark.parametrize("task", PIPELINES)
def test_a_pipeline_answers_as_on_the_cpu(task: str) -> None:
    name, ask = PIPELINES[task]
    there, here = (
        ask(transformers.pipeline(task, model=model(name), tokenizer=tokenizer(), device=device))
        for device in (DEVICE, "cpu")
    )
    same(there, here)


def same(actual: Any, expected: Any) -> None:
    if isinstance(expected, list):
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    elif isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            same(actual[key], expected[key])
    elif isinstance(expected, (float, numpy.floating, Tensor)):
        torch.testing.assert_close(
            torch.as_tensor(actual), torch.as_tensor(expected), rtol=1e-4, atol=1e-5, check_device=False
        )
    else:
        assert actual == expected


class Sentences(Dataset[dict[str, Any]]):
    """Rows of tokens that count upwards."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = [5 + (index + place) % 40 for place in range(8)]
        return {"input_ids": row, "attention_mask": [1] * 8, "labels": row}


def trainer(folder: Path, device: str, **options: Any) -> transformers.Trainer:
    torch.manual_seed(0)
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        eval_strategy="epoch",
        save_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=device == "cpu",
        **{"num_train_epochs": 1, **options},
    )
    sentences = Sentences()
    return transformers.Trainer(
        ARCHITECTURES["gpt2"].model(),
        arguments,
        transformers.DataCollatorForSeq2Seq(tokenizer()),
        sentences,
        sentences,
        processing_class=tokenizer(),
    )


def losses(trained: transformers.Trainer) -> list[float]:
    return [entry[key] for entry in trained.state.log_history for key in ("loss", "eval_loss") if key in entry]


def test_a_trainer_trains_evaluates_and_saves_as_on_the_cpu(tmp_path: Path) -> None:
    runs = {}
    for device in (DEVICE, "cpu"):
        runs[device] = trainer(tmp_path / device, device)
        runs[device].train()
    there, here = runs[DEVICE], runs["cpu"]
    assert there.args.device.type == DEVICE
    assert len(losses(there)) == 4
    same(losses(there), losses(here))
    saved = tmp_path / DEVICE / "checkpoint-3"
    assert json.loads((saved / "trainer_state.json").read_text())["global_step"] == 3
    assert_close(
        transformers.AutoModelForCausalLM.from_pretrained(saved).state_dict(),
        {name: value.cpu() for name, value in there.model.state_dict().items()},
    )


def test_a_trainer_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    whole = trainer(tmp_path, DEVICE, num_train_epochs=2)
    whole.train()
    resumed = trainer(tmp_path, DEVICE, num_train_epochs=2)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert_close(resumed.model.state_dict(), whole.model.state_dict())


OPTIONS: dict[str, dict[str, Any]] = {
    "bfloat16": {"bf16": True},
    "checkpointed": {"activation_checkpointing": True, "gradient_accumulation_steps": 3},
    "compiled": {"torch_compile": True},
}


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)  # Dynamo's own look
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_trainer_takes_its_options(tmp_path: Path, options: dict[str, Any]) -> None:
    trained = trainer(tmp_path, DEVICE, save_total_limit=1, max_grad_norm=0.5, **options)
    trained.train()
    assert losses(trained)[-1] < 5 and all(p.device.type == DEVICE for p in trained.model.parameters())


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_loop_of_accelerate(precision: str) -> None:
    def run(on_cpu: bool) -> list[float]:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(cpu=on_cpu, mixed_precision=precision, gradient_accumulation_steps=2)
        assert accelerator.device.type == ("cpu" if on_cpu else DEVICE)
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))
        rows = torch.randn(8, 4)
        module, optimizer, batches = accelerator.prepare(
            module, torch.optim.AdamW(module.parameters(), 0.05, eps=1e-4), DataLoader(rows, batch_size=2)
        )
        seen = []
        for batch in batches:
            with accelerator.accumulate(module):
                loss = module(batch).float().square().mean()
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(module.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            seen += accelerator.gather(loss.detach()[None]).tolist()
        return seen

    torch.testing.assert_close(
        run(False), run(True), rtol=1e-4 if precision == "no" else 3e-2, atol=1e-5 if precision == "no" else 3e-3
    )


def test_an_accelerator_saves_its_state_and_goes_on(tmp_path: Path) -> None:
    accelerator = accelerate.Accelerator()
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    module, optimizer = accelerator.prepare(module, torch.optim.Adam(module.parameters(), 0.1))
    x = torch.ones(3, 4, device=DEVICE)

    def step() -> dict[str, Tensor]:
        accelerator.backward(module(x).square().sum())
        optimizer.step()
        optimizer.zero_grad()
        return {name: value.clone() for name, value in module.state_dict().items()}

    step()
    accelerator.save_state(str(tmp_path))
    want = step()
    accelerator.load_state(str(tmp_path))
    assert_close(step(), want)
