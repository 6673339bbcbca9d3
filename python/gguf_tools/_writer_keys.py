"""Keys of the methods ``add_NAME`` of gguf-py's ``GGUFWriter`` (llama-cpp-python 0.3.36).

``array`` stands for a list whose first item decides the type, and ``u32 or array`` for a number or such a list.
"""

from __future__ import annotations

# Parts of keys that are not in the names of their methods.
_PREFIXES = ("{arch}.attention.", "tokenizer.ggml.", "{arch}.", "general.", "clip.", "")

# Keys by type. The name of a method is its key without the prefix, in which dots are underscores.
_KEYS = {
    "str": """
        general.type general.sampling.sequence general.name general.author general.version general.organization
        general.finetune general.basename general.description general.quantized_by general.size_label
        general.license general.license.name general.license.link general.url general.doi general.uuid
        general.repo_url general.source.url general.source.doi general.source.uuid general.source.repo_url
        general.base_model.{id}.name general.base_model.{id}.author general.base_model.{id}.version
        general.base_model.{id}.organization general.base_model.{id}.description general.base_model.{id}.url
        general.base_model.{id}.doi general.base_model.{id}.uuid general.base_model.{id}.repo_url
        general.dataset.{id}.name general.dataset.{id}.author general.dataset.{id}.version
        general.dataset.{id}.organization general.dataset.{id}.description general.dataset.{id}.url
        general.dataset.{id}.doi general.dataset.{id}.uuid general.dataset.{id}.repo_url
        {arch}.tensor_data_layout {arch}.rope.scaling.type clip.gen.audio.model_variant
    """,
    "u32": """
        general.quantization_version general.file_type general.base_model.count general.dataset.count
        {arch}.vocab_size {arch}.context_length {arch}.embedding_length {arch}.embedding_length_out
        {arch}.features_length {arch}.posnet.embedding_length {arch}.posnet.block_count
        {arch}.convnext.embedding_length {arch}.convnext.block_count {arch}.shortconv.l_cache {arch}.block_count
        {arch}.leading_dense_block_count {arch}.full_attention_interval {arch}.hash_layer_count
        {arch}.expert_shared_feed_forward_length {arch}.expert_chunk_feed_forward_length
        {arch}.decoder_start_token_id {arch}.decoder_block_count {arch}.embedding_length_per_layer_input
        {arch}.altup.active_idx {arch}.altup.num_inputs {arch}.attention.key_length
        {arch}.attention.value_length {arch}.attention.key_length_mla {arch}.attention.value_length_mla
        {arch}.attention.key_length_swa {arch}.attention.key_length_mla_swa
        {arch}.attention.value_length_mla_swa {arch}.attention.kv_lora_rank_swa
        {arch}.attention.value_length_swa {arch}.attention.indexer.head_count
        {arch}.attention.indexer.key_length {arch}.attention.indexer.top_k {arch}.attention.indexer.block_size
        {arch}.attention.indexer.local_blocks {arch}.attention.indexer.kpool {arch}.attention.shared_kv_layers
        {arch}.expert_count {arch}.expert_shared_count {arch}.expert_group_count {arch}.expert_group_used_count
        {arch}.expert_gating_func {arch}.experts_per_group {arch}.moe_every_n_layers {arch}.moe_latent_size
        {arch}.nextn_predict_layers {arch}.rescale_every_n_layers {arch}.time_mix_extra_dim
        {arch}.time_decay_extra_dim {arch}.hrm.layers_per_stack {arch}.hrm.h_cycles {arch}.hrm.l_cycles
        {arch}.wkv.head_size {arch}.token_shift_count {arch}.num_loops {arch}.interleave_moe_layer_step
        {arch}.attention.group_norm_groups {arch}.attention.q_lora_rank {arch}.attention.kv_lora_rank
        {arch}.attention.decay_lora_rank {arch}.attention.iclr_lora_rank
        {arch}.attention.value_residual_mix_lora_rank {arch}.attention.gate_lora_rank
        {arch}.attention.sliding_window {arch}.block_size {arch}.conv_kernel_size {arch}.conv_group_size
        {arch}.selector_rank {arch}.selector_top_k {arch}.target_hidden_size {arch}.hyper_connection.count
        {arch}.hyper_connection.sinkhorn_iterations {arch}.hyper_connection.low_rank {arch}.ple.ngram_size
        {arch}.ple.heads_per_ngram {arch}.ple.conv_kernel {arch}.ple.eos_token_id {arch}.ple.image_token_id
        {arch}.pooling_type {arch}.rope.dimension_count {arch}.rope.dimension_count_swa {arch}.ssm.conv_kernel
        {arch}.ssm.inner_size {arch}.ssm.state_size {arch}.ssm.time_step_rank {arch}.ssm.group_count
        {arch}.expert_latent_length {arch}.attn_res.block_size {arch}.kda.head_dim
        tokenizer.ggml.token_type_count tokenizer.ggml.bos_token_id tokenizer.ggml.eos_token_id
        tokenizer.ggml.mask_token_id tokenizer.ggml.eot_token_id tokenizer.ggml.eom_token_id
        {arch}.classifier.pooling_type clip.vision.projection_dim clip.vision.patch_size
        clip.vision.embedding_length clip.vision.feed_forward_length clip.vision.block_count
        clip.vision.image_size clip.vision.preproc_max_tiles clip.vision.preproc_min_tiles
        clip.vision.preproc_image_size clip.vision.projector.query_side clip.vision.projector.window_side
        clip.vision.spatial_merge_size clip.vision.expert_used_count clip.vision.projector.scale_factor
        clip.vision.n_wa_pattern clip.vision.window_size clip.vision.sam.embedding_length
        clip.vision.sam.head_count clip.audio.projection_dim clip.audio.embedding_length
        clip.audio.feed_forward_length clip.audio.block_count clip.audio.num_mel_bins
        clip.audio.rvq.num_quantizers clip.audio.window_size clip.audio.local_block_count
        clip.audio.local_group_size clip.audio.subsampling_factor clip.audio.chunk_size
        clip.audio.conv_kernel_size clip.audio.max_pos_emb clip.audio.projector.window_size
        clip.audio.projector.downsample_rate clip.audio.projector.head_count clip.gen.audio.projection_dim
        clip.gen.audio.embedding_length clip.gen.audio.feed_forward_length clip.gen.audio.block_count
    """,
    "i32": """
        general.sampling.top_k general.sampling.penalty_last_n general.sampling.mirostat
    """,
    "f32": """
        general.sampling.top_p general.sampling.min_p general.sampling.xtc_probability
        general.sampling.xtc_threshold general.sampling.temp general.sampling.penalty_repeat
        general.sampling.mirostat_tau general.sampling.mirostat_eta {arch}.attention.max_alibi_bias
        {arch}.attention.clamp_kqv {arch}.logit_scale {arch}.attn_logit_softcapping
        {arch}.router_logit_softcapping {arch}.final_logit_softcapping {arch}.expert_weights_scale
        {arch}.expert_group_scale {arch}.residual_scale {arch}.embedding_scale {arch}.rope.freq_base_swa
        {arch}.hyper_connection.epsilon {arch}.hyper_connection.magnitude {arch}.rope.freq_base
        {arch}.rope.scaling.factor {arch}.rope.scaling.alpha {arch}.rope.scaling.yarn_ext_factor
        {arch}.rope.scaling.yarn_attn_factor {arch}.rope.scaling.yarn_beta_fast
        {arch}.rope.scaling.yarn_beta_slow {arch}.activation.situ_beta {arch}.activation.situ_linear_beta
        {arch}.kda.gate_lower_bound clip.vision.swiglu_clamp
    """,
    "array": """
        general.tags general.languages {arch}.activation_sparsity_scale {arch}.attention.indexer.types
        {arch}.attention.recurrent_layers {arch}.attention.rope_pattern {arch}.swiglu_clamp_exp
        {arch}.swiglu_clamp_shexp {arch}.target_layers {arch}.ple.layers {arch}.deepstack_mapping
        {arch}.rope.dimension_sections tokenizer.ggml.precompiled_charsmap tokenizer.ggml.suppress_tokens
        {arch}.classifier.output_labels clip.vision.image_mean clip.vision.image_std
        clip.vision.expert_count_per_layer clip.vision.wa_layer_indexes clip.vision.is_deepstack_layers
        clip.vision.wa_pattern_mode clip.vision.image_grid_pinpoints clip.audio.rvq.codebook_size
        clip.audio.wa_pattern_mode xielu.alpha_p xielu.alpha_n xielu.beta xielu.eps
    """,
    "u32 or array": """
        {arch}.feed_forward_length {arch}.expert_feed_forward_length {arch}.attention.head_count
        {arch}.attention.head_count_kv {arch}.attention.sliding_window_pattern {arch}.expert_used_count
    """,
    "bool": """
        {arch}.attention.indexer.kpool_select_tail {arch}.expert_weights_norm {arch}.swin_norm
        {arch}.hrm.prefix_lm {arch}.skip_loop_final_norm {arch}.sample_from_anchor {arch}.has_confidence_head
        {arch}.norm_before_residual {arch}.norm_before_fc {arch}.rope.scaling.finetuned {arch}.ssm.dt_b_c_rms
        {arch}.kda.safe_gate tokenizer.ggml.add_bos_token tokenizer.ggml.add_eos_token
        tokenizer.ggml.add_sep_token tokenizer.ggml.add_space_prefix tokenizer.ggml.remove_extra_whitespaces
        tokenizer.ggml.normalizer.lowercase tokenizer.ggml.normalizer.strip_accents diffusion.shift_logits
    """,
    "arr[u64]": """
        {arch}.ple.layer_multipliers {arch}.ple.head_offsets {arch}.ple.head_vocab_sizes
    """,
}

# Names that differ from their keys.
_OTHERS = {
    "str": {
        "hidden_act": "{arch}.hidden_activation",
        "tokenizer_model": "tokenizer.ggml.model",
        "tokenizer_pre": "tokenizer.ggml.pre",
        "clip_projector_type": "clip.projector_type",
        "clip_vision_projector_type": "clip.vision.projector_type",
        "clip_audio_projector_type": "clip.audio.projector_type",
        "clip_gen_audio_projector_type": "clip.gen.audio.projector_type",
    },
    "u32": {
        "adapter_count": "{arch}.adapters.count",
        "adapter_lora_rank": "{arch}.adapters.lora_rank",
        "relative_attn_buckets_count": "{arch}.attention.relative_buckets_count",
        "attention_output_group_count": "{arch}.attention.output_group_count",
        "attention_output_lora_rank": "{arch}.attention.output_lora_rank",
        "attn_temperature_length": "{arch}.attention.temperature_length",
        "num_deepstack_layers": "{arch}.n_deepstack_layers",
        "rope_scaling_orig_ctx_len": "{arch}.rope.scaling.original_context_length",
        "unk_token_id": "tokenizer.ggml.unknown_token_id",
        "sep_token_id": "tokenizer.ggml.seperator_token_id",
        "pad_token_id": "tokenizer.ggml.padding_token_id",
        "vision_head_count": "clip.vision.attention.head_count",
        "vision_head_count_kv": "clip.vision.attention.head_count_kv",
        "vision_head_dim": "clip.vision.attention.head_dim",
        "vision_max_pixels": "clip.vision.image_max_pixels",
        "vision_min_pixels": "clip.vision.image_min_pixels",
        "vision_sam_layers_count": "clip.vision.sam.block_count",
        "audio_head_count": "clip.audio.attention.head_count",
        "audio_stack_factor": "clip.audio.projector.stack_factor",
        "gen_audio_head_count": "clip.gen.audio.attention.head_count",
        "gen_audio_head_count_kv": "clip.gen.audio.attention.head_count_kv",
    },
    "f32": {
        "adapter_router_gain": "{arch}.adapters.router_gain",
        "layer_norm_eps": "{arch}.attention.layer_norm_epsilon",
        "layer_norm_rms_eps": "{arch}.attention.layer_norm_rms_epsilon",
        "group_norm_eps": "{arch}.attention.group_norm_epsilon",
        "attention_compress_rope_freq_base": "{arch}.attention.compress_rope_freq_base",
        "attention_scale": "{arch}.attention.scale",
        "attn_output_scale": "{arch}.attention.output_scale",
        "attn_value_scale": "{arch}.attention.value_scale",
        "attn_temperature_scale": "{arch}.attention.temperature_scale",
        "rope_scaling_attn_factors": "{arch}.rope.scaling.attn_factor",
        "rope_scaling_yarn_log_mul": "{arch}.rope.scaling.yarn_log_multiplier",
        "vision_attention_layernorm_eps": "clip.vision.attention.layer_norm_epsilon",
        "audio_attention_layernorm_eps": "clip.audio.attention.layer_norm_epsilon",
        "gen_audio_attention_layernorm_eps": "clip.gen.audio.attention.layer_norm_epsilon",
    },
    "array": {
        "adapter_token_ids_activate": "{arch}.adapters.token_ids_activate",
        "adapter_token_ids_substitute": "{arch}.adapters.token_ids_substitute",
        "attention_compress_ratios": "{arch}.attention.compress_ratios",
        "token_list": "tokenizer.ggml.tokens",
        "token_merges": "tokenizer.ggml.merges",
        "token_types": "tokenizer.ggml.token_type",
        "token_scores": "tokenizer.ggml.scores",
        "vision_spatial_offsets": "clip.vision.projector.spatial_offsets",
        "vision_feature_layers": "clip.vision.feature_layer",
        "audio_feature_layers": "clip.audio.feature_layer",
    },
    "bool": {
        "parallel_residual": "{arch}.use_parallel_residual",
        "causal_attention": "{arch}.attention.causal",
        "clip_has_vision_encoder": "clip.has_vision_encoder",
        "clip_has_audio_encoder": "clip.has_audio_encoder",
        "clip_has_gen_audio_encoder": "clip.has_gen_audio_encoder",
        "vision_use_gelu": "clip.use_gelu",
        "vision_use_silu": "clip.use_silu",
    },
}


def _name(key: str) -> str:
    prefix = next(prefix for prefix in _PREFIXES if key.startswith(prefix))
    return key[len(prefix) :].replace("{id}.", "").replace(".", "_")


#: Type and key of each name.
METHODS = {_name(key): (kind, key) for kind, keys in _KEYS.items() for key in keys.split()}
METHODS.update((name, (kind, key)) for kind, names in _OTHERS.items() for name, key in names.items())
