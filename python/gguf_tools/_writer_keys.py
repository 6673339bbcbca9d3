"""Keys of the methods ``add_NAME`` of gguf-py's ``GGUFWriter`` (llama-cpp-python 0.3.36).

``array`` stands for a list whose first item decides the type, and ``u32 or array`` for a number or such a list.
"""

# Ends of keys by their type and their beginning. The name of a method is the end without ``{id}``, in which dots are underscores, or
# what stands before ``=``.
_KEYS = {
    "str": {
        "{arch}.": "tensor_data_layout rope.scaling.type hidden_act=hidden_activation",
        "general.": """
            type sampling.sequence name author version organization finetune basename description quantized_by
            size_label license license.name license.link url doi uuid repo_url source.url source.doi source.uuid
            source.repo_url base_model.{id}.name base_model.{id}.author base_model.{id}.version
            base_model.{id}.organization base_model.{id}.description base_model.{id}.url base_model.{id}.doi
            base_model.{id}.uuid base_model.{id}.repo_url dataset.{id}.name dataset.{id}.author dataset.{id}.version
            dataset.{id}.organization dataset.{id}.description dataset.{id}.url dataset.{id}.doi dataset.{id}.uuid
            dataset.{id}.repo_url
        """,
        "tokenizer.ggml.": "tokenizer_model=model tokenizer_pre=pre",
        "clip.": """
            gen.audio.model_variant clip_projector_type=projector_type clip_vision_projector_type=vision.projector_type
            clip_audio_projector_type=audio.projector_type clip_gen_audio_projector_type=gen.audio.projector_type
        """,
    },
    "u32": {
        "{arch}.": """
            vocab_size context_length embedding_length embedding_length_out features_length posnet.embedding_length
            posnet.block_count convnext.embedding_length convnext.block_count shortconv.l_cache block_count
            leading_dense_block_count full_attention_interval hash_layer_count expert_shared_feed_forward_length
            expert_chunk_feed_forward_length decoder_start_token_id decoder_block_count embedding_length_per_layer_input
            altup.active_idx altup.num_inputs expert_count expert_shared_count expert_group_count
            expert_group_used_count expert_gating_func experts_per_group moe_every_n_layers moe_latent_size
            nextn_predict_layers rescale_every_n_layers time_mix_extra_dim time_decay_extra_dim hrm.layers_per_stack
            hrm.h_cycles hrm.l_cycles wkv.head_size token_shift_count num_loops interleave_moe_layer_step block_size
            conv_kernel_size conv_group_size selector_rank selector_top_k target_hidden_size hyper_connection.count
            hyper_connection.sinkhorn_iterations hyper_connection.low_rank ple.ngram_size ple.heads_per_ngram
            ple.conv_kernel ple.eos_token_id ple.image_token_id pooling_type rope.dimension_count
            rope.dimension_count_swa ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count
            expert_latent_length attn_res.block_size kda.head_dim classifier.pooling_type adapter_count=adapters.count
            adapter_lora_rank=adapters.lora_rank num_deepstack_layers=n_deepstack_layers
            rope_scaling_orig_ctx_len=rope.scaling.original_context_length
        """,
        "{arch}.attention.": """
            key_length value_length key_length_mla value_length_mla key_length_swa key_length_mla_swa
            value_length_mla_swa kv_lora_rank_swa value_length_swa indexer.head_count indexer.key_length indexer.top_k
            indexer.block_size indexer.local_blocks indexer.kpool shared_kv_layers group_norm_groups q_lora_rank
            kv_lora_rank decay_lora_rank iclr_lora_rank value_residual_mix_lora_rank gate_lora_rank sliding_window
            relative_attn_buckets_count=relative_buckets_count attention_output_group_count=output_group_count
            attention_output_lora_rank=output_lora_rank attn_temperature_length=temperature_length
        """,
        "general.": "quantization_version file_type base_model.count dataset.count",
        "tokenizer.ggml.": """
            token_type_count bos_token_id eos_token_id mask_token_id eot_token_id eom_token_id
            unk_token_id=unknown_token_id sep_token_id=seperator_token_id pad_token_id=padding_token_id
        """,
        "clip.": """
            vision.projection_dim vision.patch_size vision.embedding_length vision.feed_forward_length
            vision.block_count vision.image_size vision.preproc_max_tiles vision.preproc_min_tiles
            vision.preproc_image_size vision.projector.query_side vision.projector.window_side vision.spatial_merge_size
            vision.expert_used_count vision.projector.scale_factor vision.n_wa_pattern vision.window_size
            vision.sam.embedding_length vision.sam.head_count audio.projection_dim audio.embedding_length
            audio.feed_forward_length audio.block_count audio.num_mel_bins audio.rvq.num_quantizers audio.window_size
            audio.local_block_count audio.local_group_size audio.subsampling_factor audio.chunk_size
            audio.conv_kernel_size audio.max_pos_emb audio.projector.window_size audio.projector.downsample_rate
            audio.projector.head_count gen.audio.projection_dim gen.audio.embedding_length gen.audio.feed_forward_length
            gen.audio.block_count vision_head_count=vision.attention.head_count
            vision_head_count_kv=vision.attention.head_count_kv vision_head_dim=vision.attention.head_dim
            vision_max_pixels=vision.image_max_pixels vision_min_pixels=vision.image_min_pixels
            vision_sam_layers_count=vision.sam.block_count audio_head_count=audio.attention.head_count
            audio_stack_factor=audio.projector.stack_factor gen_audio_head_count=gen.audio.attention.head_count
            gen_audio_head_count_kv=gen.audio.attention.head_count_kv
        """,
    },
    "i32": {
        "general.": "sampling.top_k sampling.penalty_last_n sampling.mirostat",
    },
    "f32": {
        "{arch}.": """
            logit_scale attn_logit_softcapping router_logit_softcapping final_logit_softcapping expert_weights_scale
            expert_group_scale residual_scale embedding_scale rope.freq_base_swa hyper_connection.epsilon
            hyper_connection.magnitude rope.freq_base rope.scaling.factor rope.scaling.alpha
            rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast
            rope.scaling.yarn_beta_slow activation.situ_beta activation.situ_linear_beta kda.gate_lower_bound
            adapter_router_gain=adapters.router_gain rope_scaling_attn_factors=rope.scaling.attn_factor
            rope_scaling_yarn_log_mul=rope.scaling.yarn_log_multiplier
        """,
        "{arch}.attention.": """
            max_alibi_bias clamp_kqv layer_norm_eps=layer_norm_epsilon layer_norm_rms_eps=layer_norm_rms_epsilon
            group_norm_eps=group_norm_epsilon attention_compress_rope_freq_base=compress_rope_freq_base
            attention_scale=scale attn_output_scale=output_scale attn_value_scale=value_scale
            attn_temperature_scale=temperature_scale
        """,
        "general.": """
            sampling.top_p sampling.min_p sampling.xtc_probability sampling.xtc_threshold sampling.temp
            sampling.penalty_repeat sampling.mirostat_tau sampling.mirostat_eta
        """,
        "clip.": """
            vision.swiglu_clamp vision_attention_layernorm_eps=vision.attention.layer_norm_epsilon
            audio_attention_layernorm_eps=audio.attention.layer_norm_epsilon
            gen_audio_attention_layernorm_eps=gen.audio.attention.layer_norm_epsilon
        """,
    },
    "array": {
        "{arch}.": """
            activation_sparsity_scale swiglu_clamp_exp swiglu_clamp_shexp target_layers ple.layers deepstack_mapping
            rope.dimension_sections classifier.output_labels adapter_token_ids_activate=adapters.token_ids_activate
            adapter_token_ids_substitute=adapters.token_ids_substitute
        """,
        "{arch}.attention.": "indexer.types recurrent_layers rope_pattern attention_compress_ratios=compress_ratios",
        "general.": "tags languages",
        "tokenizer.ggml.": """
            precompiled_charsmap suppress_tokens token_list=tokens token_merges=merges token_types=token_type
            token_scores=scores
        """,
        "clip.": """
            vision.image_mean vision.image_std vision.expert_count_per_layer vision.wa_layer_indexes
            vision.is_deepstack_layers vision.wa_pattern_mode vision.image_grid_pinpoints audio.rvq.codebook_size
            audio.wa_pattern_mode vision_spatial_offsets=vision.projector.spatial_offsets
            vision_feature_layers=vision.feature_layer audio_feature_layers=audio.feature_layer
        """,
        "": "xielu.alpha_p xielu.alpha_n xielu.beta xielu.eps",
    },
    "u32 or array": {
        "{arch}.": "feed_forward_length expert_feed_forward_length expert_used_count",
        "{arch}.attention.": "head_count head_count_kv sliding_window_pattern",
    },
    "bool": {
        "{arch}.": """
            expert_weights_norm swin_norm hrm.prefix_lm skip_loop_final_norm sample_from_anchor has_confidence_head
            norm_before_residual norm_before_fc rope.scaling.finetuned ssm.dt_b_c_rms kda.safe_gate
            parallel_residual=use_parallel_residual
        """,
        "{arch}.attention.": "indexer.kpool_select_tail causal_attention=causal",
        "tokenizer.ggml.": """
            add_bos_token add_eos_token add_sep_token add_space_prefix remove_extra_whitespaces normalizer.lowercase
            normalizer.strip_accents
        """,
        "clip.": """
            clip_has_vision_encoder=has_vision_encoder clip_has_audio_encoder=has_audio_encoder
            clip_has_gen_audio_encoder=has_gen_audio_encoder vision_use_gelu=use_gelu vision_use_silu=use_silu
        """,
        "": "diffusion.shift_logits",
    },
    "arr[u64]": {
        "{arch}.": "ple.layer_multipliers ple.head_offsets ple.head_vocab_sizes",
    },
}

#: Type and key of each name.
METHODS = {}
for _kind, _groups in _KEYS.items():
    for _start, _ends in _groups.items():
        for _entry in _ends.split():
            _name, _, _end = _entry.rpartition("=")
            METHODS[_name or _end.replace("{id}.", "").replace(".", "_")] = (_kind, _start + _end)
