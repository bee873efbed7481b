"""From trained weights to a GGUF file that any llama.cpp serves."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch

from llm_worker.errors import ModelError
from llm_worker.model.tokenizer import ASSISTANT, END, SPECIAL, USER, Tokenizer
from llm_worker.model.train import NORM_EPSILON, ROPE_BASE, Llama, Shape
from llm_worker.play.models import MADE_HERE, made_here

# One message, the description of the moment: everything the model needs is in it, and a short
# prompt is what makes it fast.
CHAT_TEMPLATE = (
    f"{{% for message in messages %}}{USER}{{{{ message['content'] }}}}{{% endfor %}}{ASSISTANT}"
)
CONTEXT = 1024


def export(weights: Path, tokenizer: Tokenizer, heads: int, path: Path) -> None:
    """Write the model with its tokenizer and its chat template."""
    with np.load(weights) as file:
        arrays = {name: file[name] for name in file.files}
    width = arrays["token_embd.weight"].shape[1]
    layers = sum(name.endswith("attn_q.weight") for name in arrays)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(MADE_HERE)
    writer.add_license("MIT")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(arrays["blk.0.ffn_gate.weight"].shape[0])
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_vocab_size(len(tokenizer.tokens))
    _add_tokenizer(writer, tokenizer)
    for name, array in arrays.items():
        # Norms are few numbers and sensitive; matrices are halved.
        writer.add_tensor(name, array if array.ndim == 1 else array.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read_model(path: Path) -> tuple[Llama, Tokenizer]:
    """A model that `export` wrote, for learning on; halved numbers become whole ones.

    Raises:
        ModelError: The file is of another origin: its tokens are cut in another way.
    """
    if not made_here(str(path)):
        raise ModelError(f"{path.name} is no model that was made here")
    reader = gguf.GGUFReader(path)
    merges = reader.fields["tokenizer.ggml.merges"]
    pairs = [bytes(merges.parts[at]).decode().split(" ") for at in merges.data]
    tokenizer = Tokenizer([(left, right) for left, right in pairs])
    arrays = {one.name: torch.from_numpy(np.array(one.data, np.float32)) for one in reader.tensors}
    heads = reader.fields["llama.attention.head_count"]
    width = arrays["token_embd.weight"].shape[1]
    layers = sum(name.endswith("attn_q.weight") for name in arrays)
    hidden = arrays["blk.0.ffn_gate.weight"].shape[0]
    shape = Shape(len(tokenizer.tokens), width, layers, int(heads.parts[heads.data[0]][0]), hidden)
    model = Llama(shape)
    model.load_state_dict(arrays)
    return model, tokenizer


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types([control if t in SPECIAL else normal for t in tokenizer.tokens])
    writer.add_token_merges([f"{left} {right}" for left, right in tokenizer.merges])
    end = tokenizer.number(END)
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)
    writer.add_eot_token_id(end)
    writer.add_pad_token_id(end)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
