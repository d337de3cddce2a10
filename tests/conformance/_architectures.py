"""Small transformers models with random weights, each with a head that trains and inputs for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Tensor

_VOCABULARY, _LENGTH = 100, 12
_SMALL = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {**_SMALL, "num_key_value_heads": 2}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 1}
_TWO_STACKS = {
    "vocab_size": _VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
_PATCHES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 32,
    "patch_size": 8,
}
_WAVES = {
    **_SMALL,
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_length": 2,
}

Inputs = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model and what it is trained on. Both draw from the CPU's generator."""

    model: Callable[[], Any]
    inputs: Callable[[], Inputs]


def tokens() -> Tensor:
    """Two rows that end on token 2, the second padded with 0."""
    ids = torch.randint(3, _VOCABULARY, (2, _LENGTH))
    ids[0, -1] = ids[1, -4] = 2
    ids[1, -3:] = 0
    return ids


def _text() -> Inputs:
    ids = tokens()
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def _next_token() -> Inputs:
    text = _text()
    return {**text, "labels": text["input_ids"].masked_fill(text["input_ids"] == 0, -100)}


def _classed_text() -> Inputs:
    return {**_text(), "labels": torch.tensor([0, 1])}


def _tagged_text() -> Inputs:
    return {**_text(), "labels": torch.randint(0, 2, (2, _LENGTH))}


def _spans() -> Inputs:
    return {**_text(), "start_positions": torch.tensor([1, 2]), "end_positions": torch.tensor([3, 2])}


def _images(size: int = 32) -> Tensor:
    return torch.randn(2, 3, size, size)


def _classed_images() -> Inputs:
    return {"pixel_values": _images(), "labels": torch.tensor([0, 1])}


def _segmented_images() -> Inputs:
    return {"pixel_values": _images(64), "labels": torch.randint(0, 3, (2, 64, 64))}


def _boxed_images() -> Inputs:
    boxes = torch.tensor([[0.5, 0.5, 0.2, 0.3], [0.3, 0.6, 0.1, 0.2]])
    return {
        "pixel_values": _images(64),
        "labels": [
            {"class_labels": torch.tensor([0, 2]), "boxes": boxes},
            {"class_labels": torch.tensor([1]), "boxes": boxes[:1]},
        ],
    }


def _spoken() -> Inputs:
    return {"input_values": torch.randn(2, 400), "labels": torch.randint(3, _VOCABULARY, (2, 4))}


def _spectrogram(frames: int) -> Callable[[], Inputs]:
    return lambda: {"input_features": torch.randn(2, 8, frames), "labels": tokens()[:, :8]}


def _captioned() -> Inputs:
    return {**_text(), "pixel_values": _images(), "return_loss": True}


def _answered() -> Inputs:
    return {**_next_token(), "pixel_values": _images()}


def _named(name: str, head: str, inputs: Callable[[], Inputs], **options: Any) -> Architecture:
    """`_named("Llama", "ForCausalLM", ...)` is LlamaForCausalLM with a LlamaConfig."""
    return Architecture(lambda: getattr(hf, name + head)(getattr(hf, f"{name}Config")(**options)), inputs)


DECODERS = {
    "gpt2": _named("GPT2", "LMHeadModel", _next_token, n_layer=2, n_embd=32, n_head=2, vocab_size=_VOCABULARY, n_positions=64, bos_token_id=1, eos_token_id=2),
    "llama": _named("Llama", "ForCausalLM", _next_token, **_GROUPED),
    "mistral": _named("Mistral", "ForCausalLM", _next_token, **_GROUPED, sliding_window=4),
    "qwen2": _named("Qwen2", "ForCausalLM", _next_token, **_GROUPED),
    "qwen3": _named("Qwen3", "ForCausalLM", _next_token, **_GROUPED, head_dim=8),
    "gemma": _named("Gemma", "ForCausalLM", _next_token, **_GROUPED, head_dim=8),
    "gemma2": _named("Gemma2", "ForCausalLM", _next_token, **_GROUPED, head_dim=8, sliding_window=4),
    "phi": _named("Phi", "ForCausalLM", _next_token, **_SMALL),
    "phi3": _named("Phi3", "ForCausalLM", _next_token, **_GROUPED),
    "gpt_neo": _named("GPTNeo", "ForCausalLM", _next_token, vocab_size=_VOCABULARY, hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4, window_size=4, max_position_embeddings=64, bos_token_id=1, eos_token_id=2),
    "gpt_neox": _named("GPTNeoX", "ForCausalLM", _next_token, **_SMALL),
    "gptj": _named("GPTJ", "ForCausalLM", _next_token, vocab_size=_VOCABULARY, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=64, bos_token_id=1, eos_token_id=2),
    "opt": _named("OPT", "ForCausalLM", _next_token, vocab_size=_VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, word_embed_proj_dim=16, max_position_embeddings=64, pad_token_id=0),
    "bloom": _named("Bloom", "ForCausalLM", _next_token, vocab_size=_VOCABULARY, hidden_size=32, n_layer=2, n_head=4, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "falcon": _named("Falcon", "ForCausalLM", _next_token, vocab_size=_VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, alibi=True),
    "stablelm": _named("StableLm", "ForCausalLM", _next_token, **_GROUPED),
    "olmo2": _named("Olmo2", "ForCausalLM", _next_token, **_GROUPED),
    "cohere": _named("Cohere", "ForCausalLM", _next_token, **_GROUPED),
    "mixtral": _named("Mixtral", "ForCausalLM", _next_token, **_GROUPED, num_local_experts=4, output_router_logits=True),
    "qwen3_moe": _named("Qwen3Moe", "ForCausalLM", _next_token, **_GROUPED, **_EXPERTS, head_dim=8),
    "deepseek_v3": _named("DeepseekV3", "ForCausalLM", _next_token, **_SMALL, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=16, first_k_dense_replace=1, kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8),
    "mamba": _named("Mamba", "ForCausalLM", _next_token, vocab_size=_VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4),
    "mamba2": _named("Mamba2", "ForCausalLM", _next_token, vocab_size=_VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4, num_heads=8, head_dim=8, n_groups=2, chunk_size=4),
}  # fmt: skip

ENCODERS = {
    "bert": _named("Bert", "ForMaskedLM", _next_token, **_SMALL),
    "roberta": _named("Roberta", "ForSequenceClassification", _classed_text, **_SMALL),
    "distilbert": _named("DistilBert", "ForQuestionAnswering", _spans, vocab_size=_VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=64),
    "electra": _named("Electra", "ForTokenClassification", _tagged_text, **_SMALL, embedding_size=16),
    "albert": _named("Albert", "ForMaskedLM", _next_token, **_SMALL, embedding_size=16),
    "deberta_v2": _named("DebertaV2", "ForSequenceClassification", _classed_text, **_SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8),
    "mpnet": _named("MPNet", "ForMaskedLM", _next_token, **_SMALL),
    "xlnet": _named("XLNet", "ForSequenceClassification", _classed_text, vocab_size=_VOCABULARY, d_model=32, n_layer=2, n_head=4, d_inner=64, pad_token_id=0),
    "funnel": _named("Funnel", "ForMaskedLM", _next_token, vocab_size=_VOCABULARY, block_sizes=[1, 1], num_decoder_layers=1, d_model=32, n_head=4, d_head=8, d_inner=64, initializer_std=0.02),
    "longformer": _named("Longformer", "ForMaskedLM", _next_token, **{**_SMALL, "pad_token_id": 1}, attention_window=4),
    "modernbert": _named("ModernBert", "ForMaskedLM", _next_token, **_SMALL, cls_token_id=1, sep_token_id=2, local_attention=4),
    "squeezebert": _named("SqueezeBert", "ForSequenceClassification", _classed_text, **_SMALL, embedding_size=32),
}  # fmt: skip

SEQUENCE_TO_SEQUENCE = {
    "t5": _named("T5", "ForConditionalGeneration", _next_token, vocab_size=_VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0),
    "bart": _named("Bart", "ForConditionalGeneration", _next_token, **_TWO_STACKS),
    "mbart": _named("MBart", "ForConditionalGeneration", _next_token, **_TWO_STACKS),
    "marian": _named("Marian", "MTModel", _next_token, **_TWO_STACKS),
    "pegasus": _named("Pegasus", "ForConditionalGeneration", _next_token, **_TWO_STACKS),
    "m2m_100": _named("M2M100", "ForConditionalGeneration", _next_token, **_TWO_STACKS),
}  # fmt: skip

VISION = {
    "vit": _named("ViT", "ForImageClassification", _classed_images, **_PATCHES),
    "deit": _named("DeiT", "ForImageClassification", _classed_images, **_PATCHES),
    "beit": _named("Beit", "ForImageClassification", _classed_images, **_PATCHES, use_relative_position_bias=True, drop_path_rate=0.1),
    "dinov2": _named("Dinov2", "ForImageClassification", _classed_images, **{k: v for k, v in _PATCHES.items() if k != "intermediate_size"}),
    "vit_mae": _named("ViTMAE", "ForPreTraining", lambda: {"pixel_values": _images()}, **_PATCHES, decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=16),
    "swin": _named("Swin", "ForImageClassification", _classed_images, image_size=32, patch_size=4, embed_dim=8, depths=[2, 1], num_heads=[2, 2], window_size=4, num_labels=2),
    "convnext": _named("ConvNext", "ForImageClassification", _classed_images, hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, num_labels=2),
    "resnet": _named("ResNet", "ForImageClassification", _classed_images, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=2, layer_type="basic"),
    "regnet": _named("RegNet", "ForImageClassification", _classed_images, embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], groups_width=4, num_labels=2),
    "mobilenet_v2": _named("MobileNetV2", "ForImageClassification", lambda: {**_classed_images(), "pixel_values": _images(96)}, depth_multiplier=0.25, image_size=96, num_labels=2),
    "mobilevit": _named("MobileViT", "ForImageClassification", lambda: {**_classed_images(), "pixel_values": _images(96)}, image_size=96, patch_size=2, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 32], num_attention_heads=2, num_labels=2),
    "segformer": _named("Segformer", "ForSemanticSegmentation", _segmented_images, hidden_sizes=[8, 16], depths=[1, 1], num_attention_heads=[1, 2], num_encoder_blocks=2, sr_ratios=[4, 2], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=3),
    "yolos": _named("Yolos", "ForObjectDetection", _boxed_images, **{**_PATCHES, "image_size": [64, 64]}, num_detection_tokens=5, num_labels=3),
    "detr": _named("Detr", "ForObjectDetection", _boxed_images, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config={"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic", "out_features": ["stage2"]}, d_model=32, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=5, num_labels=3, auxiliary_loss=True),
}  # fmt: skip

AUDIO = {
    "wav2vec2": _named("Wav2Vec2", "ForCTC", _spoken, **_WAVES),
    "hubert": _named("Hubert", "ForCTC", _spoken, **_WAVES),
    "wavlm": _named("WavLM", "ForCTC", _spoken, **_WAVES),
    "whisper": _named("Whisper", "ForConditionalGeneration", _spectrogram(40), **{k: v for k, v in _TWO_STACKS.items() if k != "max_position_embeddings"}, num_mel_bins=8, max_source_positions=20, max_target_positions=20),
    "audio_spectrogram": _named("AST", "ForAudioClassification", lambda: {"input_values": torch.randn(2, 24, 16), "labels": torch.tensor([0, 1])}, **{k: v for k, v in _PATCHES.items() if k != "image_size"}, max_length=24, num_mel_bins=16, frequency_stride=8, time_stride=8),
}  # fmt: skip

MULTIMODAL = {
    "clip": _named("CLIP", "Model", _captioned, text_config=_SMALL, vision_config=_PATCHES, projection_dim=16),
    "siglip": _named("Siglip", "Model", _captioned, text_config={**_SMALL, "max_position_embeddings": _LENGTH}, vision_config=_PATCHES),
    "blip": _named("Blip", "ForConditionalGeneration", _answered, text_config={**_SMALL, "encoder_hidden_size": 32}, vision_config=_PATCHES, projection_dim=16),
    "vilt": _named("Vilt", "ForImagesAndTextClassification", lambda: {**_text(), "pixel_values": torch.randn(2, 1, 3, 32, 32), "labels": torch.tensor([0, 1])}, **{**_SMALL, **_PATCHES}, num_images=1, num_labels=2, modality_type_vocab_size=3),
}  # fmt: skip

ARCHITECTURES: dict[str, Architecture] = {
    **DECODERS,
    **ENCODERS,
    **SEQUENCE_TO_SEQUENCE,
    **VISION,
    **AUDIO,
    **MULTIMODAL,
}
