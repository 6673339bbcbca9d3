"""Golden recipes of Pocket TTS: the text model, and the projector with Mimi's encoder and the decoders of sound."""

from tiny_tokenizers import train_unigram


def make_tokenizer(folder, vocab_size: int, spec: dict) -> None:
    """The tokenizer alone: the checkpoint has no other small file."""
    (folder / "tokenizer.model").write_bytes(train_unigram(unk_id=0, bos_id=1, eos_id=2, pad_id=3))


TOKENIZERS = {"unigram-pockettts": make_tokenizer}


def transformer(start: str, n_layers: int, n: int, ff: int, scales: bool = False) -> dict:
    names = {"norm1.weight": [n], "norm1.bias": [n], "norm2.weight": [n], "norm2.bias": [n],
             "self_attn.in_proj.weight": [3 * n, n], "self_attn.out_proj.weight": [n, n], "linear1.weight": [ff, n],
             "linear2.weight": [n, ff]}
    names |= {f"layer_scale_{i}.scale": [n] for i in (1, 2)} if scales else {}
    return {f"{start}.layers.{i}.{name}": shape for i in range(n_layers) for name, shape in names.items()}


def linear(name: str, n_out: int, n_in: int) -> dict:
    return {f"{name}.weight": [n_out, n_in], f"{name}.bias": [n_out]}


def flow_net(n: int, n_embd: int, latent: int) -> dict:
    start = "flow_lm.flow_net"
    out = linear(f"{start}.input_proj", n, latent) | linear(f"{start}.cond_embed", n, n_embd)
    out |= linear(f"{start}.final_layer.linear", latent, n)
    out |= linear(f"{start}.final_layer.adaLN_modulation.1", 2 * n, n)
    for i in range(2):
        time = f"{start}.time_embed.{i}"
        out |= {f"{time}.freqs": [12], f"{time}.mlp.3.alpha": [n]}
        out |= linear(f"{time}.mlp.0", n, 24) | linear(f"{time}.mlp.2", n, n)
    for i in range(3):
        block = f"{start}.res_blocks.{i}"
        out |= {f"{block}.in_ln.weight": [n], f"{block}.in_ln.bias": [n]}
        out |= linear(f"{block}.mlp.0", n, n) | linear(f"{block}.mlp.2", n, n)
        out |= linear(f"{block}.adaLN_modulation.1", 3 * n, n)
    return out


def seanet(n: int) -> dict:
    """Encoder and decoder of sound, with widths that double in every stage."""
    def conv(name: str, *shape: int, biases: int = 0) -> dict:
        return {f"{name}.weight": list(shape), f"{name}.bias": [biases or shape[0]]}
    encoder, decoder = "mimi.encoder.model", "mimi.decoder.model"
    out = conv(f"{encoder}.0.conv", 8, 1, 7) | conv(f"{encoder}.11.conv", n, 64, 3)
    out |= conv(f"{decoder}.0.conv", 64, n, 7) | conv(f"{decoder}.11.conv", 1, 8, 3)
    for i, kernel in enumerate((8, 10, 12)):
        width = 8 << i
        out |= conv(f"{encoder}.{1 + 3 * i}.block.1.conv", width // 2, width, 3)
        out |= conv(f"{encoder}.{1 + 3 * i}.block.3.conv", width, width // 2, 1)
        out |= conv(f"{encoder}.{3 + 3 * i}.conv", 2 * width, width, kernel)
        width = 64 >> i
        # A transposed convolution has its inputs first.
        out |= conv(f"{decoder}.{2 + 3 * i}.convtr", width, width // 2, kernel, biases=width // 2)
        out |= conv(f"{decoder}.{3 + 3 * i}.block.1.conv", width // 4, width // 2, 3)
        out |= conv(f"{decoder}.{3 + 3 * i}.block.3.conv", width // 2, width // 4, 1)
    return out


def pockettts(config: dict) -> dict:
    n, latent, n_audio, dtype = 128, 32, 64, config.get("dtype", "BF16")
    # The row of the embedding that is a product has the same sum in every order.
    out = {"flow_lm.bos_emb": f"grid {latent} {dtype}", "flow_lm.input_linear.weight": f"grid {n}x{latent} {dtype}",
           "flow_lm.conditioner.embed.weight": f"normal {config['n_vocab']}x{n} {dtype}",
           "flow_lm.out_norm.weight": [n], "flow_lm.out_norm.bias": [n], "flow_lm.speaker_proj_weight": [n, n_audio],
           "flow_lm.emb_mean": [latent], "flow_lm.emb_std": [latent],
           "mimi.downsample.conv.conv.weight": [n_audio, n_audio, 8], "mimi.upsample.convtr.convtr.weight": [n_audio, 1, 8],
           "mimi.quantizer.output_proj.weight": [n_audio, latent, 1]}
    out |= {"flow_lm.bos_before_voice": f"normal 1x1x{n} {dtype}"} if config["voice"] else {}
    out |= linear("flow_lm.out_eos", 1, n) | flow_net(48, n, latent) | seanet(n_audio)
    out |= transformer("flow_lm.transformer", 2, n, 192)
    for part in ("encoder", "decoder"):
        out |= transformer(f"mimi.{part}_transformer.transformer", 2, n_audio, 96, scales=True)
    return out


RECIPE = dict(hand=pockettts, without_config=True, tokenizer="unigram-pockettts", vocab_size=160)
# The reference rounds the product to F16 where the embedding has this type, and to no other.
CHECKPOINTS = {
    "pockettts": RECIPE | dict(config=dict(n_vocab=160, voice=True)),
    "pockettts-no-voice": RECIPE | dict(config=dict(n_vocab=160, voice=False, dtype="F16")),
}
PROJECTORS = {"pockettts": RECIPE | dict(config=dict(n_vocab=160, voice=True), preprocessor=None)}
