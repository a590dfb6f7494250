"""Ops of ONNX and ONNX Runtime that have no rule, and why not."""

from __future__ import annotations

from collections.abc import Mapping

_REASONS: Mapping[str, tuple[str, ...]] = {
    "it works on texts, whose sizes are known only in a run": (
        "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit",
        "com.microsoft:Tokenizer",
    ),
    "the size of what it decodes is known only in a run": ("ImageDecoder",),
    "its bodies run as often as the data say": (
        "com.microsoft:BeamSearch", "com.microsoft:GreedySearch", "com.microsoft:Sampling",
        "com.microsoft:WhisperBeamSearch",
    ),
    "it holds a program for one device, which nothing can look into": (
        "com.microsoft:EPContext", "com.microsoft:Snpe",
    ),
    "it stands for a plugin of TensorRT": (
        "DisentangledAttention_TRT", "EfficientNMS_TRT", "MultilevelCropAndResize_TRT",
        "PyramidROIAlign_TRT",
    ),
    "ONNX Runtime has kernels for it on GPUs alone, and there is no rule yet": (
        "com.microsoft:DecoderAttention", "com.microsoft:DecoderMaskedSelfAttention",
        "com.microsoft:ConvStateReplay", "com.microsoft:DynamicSparseAttention",
        "com.microsoft:GatedDeltaNetStateReplay",
        "com.microsoft:GatedRelativePositionBias", "com.microsoft:HyperConnectionLowRankMix",
        "com.microsoft:LongformerAttention", "com.microsoft:Mamba2Verify",
        "com.microsoft:MatMulNBitsQLoRA", "com.microsoft:MatMulPacked", "com.microsoft:MoEPacked",
        "com.microsoft:PackedAttention", "com.microsoft:PackedMultiHeadAttention",
        "com.microsoft:PackedSparseAttentionIndexer",
        "com.microsoft:PackedSparseAttentionIndexerMerge", "com.microsoft:PagedAttention",
        "com.microsoft:QOrderedAttention", "com.microsoft:QOrderedLongformerAttention",
        "com.microsoft:RMSNormRotary", "com.microsoft:RouterGateUpProj",
        "com.microsoft:SparseAttentionIndexer", "com.microsoft:SparsePagedAttention",
        "com.microsoft:SpeculativePrefixCommit", "com.microsoft:SwiGLU",
    ),
    "ONNX Runtime has a kernel for it on CPUs from 1.32 on, and there is no rule yet": (
        "com.microsoft:GatedDeltaNet", "com.microsoft:VarlenCausalConvWithState",
    ),
    "nothing has a kernel for it": ("GRUUnit", "ai.onnx.preview.training:Gradient"),
}  # fmt: skip

UNPRICED: Mapping[str, str] = {op: why for why, ops in _REASONS.items() for op in ops}
"""Why there is no rule, by op as ``op_key`` names it."""
