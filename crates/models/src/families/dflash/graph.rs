//! The graph of DFlash and DSpark.
//!
//! A draft keeps keys and values that follow from states of the target, and fills a block of masks at once:
//!
//! ```text
//! g_p = n_g W_fc [s_1, .., s_k]_p        s: inputs of layers of the target at position p, each (n_embd)
//! in each layer, keys and values of p follow from g_p, those of the block from its own rows, and
//! every row of the block [last token, mask, mask, ..] sees all
//! logits of row i of the block: the i-th token after the last one
//! ```
//!
//! DSpark adds `W_2 w_1[d]` to the logits, where d is the previous token, and may also use the first row as a prediction. DFlash 2
//! has convolutions over the block, and rescores the likeliest tokens of each row by the previous token:
//!
//! ```text
//! conv(x)_t = sum over i of (b_i + [W x]_(t, i)) x_(t - i)             b_i (n_embd); W x has a number for each group
//! score(d, c) at row t = logit_t[c] + next[c] . (previous[d] * W_s x_t)
//! ```
//!
//! Source: `llama_model_dflash::graph` and `common_speculative_impl_draft_dflash` of llama.cpp (llama-cpp-python 0.3.36).

mod block;

use block::{Conv, Markov, Selector, likeliest};
use gguf_runtime::graphs::{
    Activation, Draft, DraftKind, Error, Head, Keys, Linear, Mlp, Norm, NormKind, Pass, Read, Rows,
    SelfAttention, Session, SlidingBase, SlidingWindow, Spec, Weight, Weights, target_ids,
};

/// Drafts by the value of `general.architecture`.
pub const DRAFTS: &[DraftKind] = &[DraftKind { name: "dflash", open }];

struct DFlash {
    target_layers: Vec<usize>,
    n_embd: usize,
    /// Number of rows of a block, like in training.
    block: usize,
    mask: u32,
    fc: Linear,
    fused_norm: Norm,
    embedding: Weight,
    embedding_scale: f32,
    layers: Vec<Layer>,
    output_norm: Norm,
    head: Head,
    /// The target's token for each of the draft's; `None` if they are the same.
    ids: Option<Vec<u32>>,
    markov: Option<Markov>,
    selector: Option<Selector>,
    /// True if the first row of a block predicts the token after the last one.
    starts_at_anchor: bool,
}

struct Layer {
    attention_norm: Norm,
    attention: SelfAttention,
    attention_conv: Option<Conv>,
    attention_post_norm: Option<Norm>,
    mlp_norm: Norm,
    mlp: Mlp,
    mlp_conv: Option<Conv>,
    mlp_post_norm: Option<Norm>,
    scale: f32,
}

fn open(
    keys: &Keys<'_>,
    weights: &mut Weights<'_>,
    target: &mut Weights<'_>,
) -> Result<Box<dyn Draft>, Error> {
    let n_embd = keys.need_count("embedding_length")?;
    let target_layers = keys.list("target_layers")?.ok_or_else(|| keys.missing("target_layers"))?;
    let epsilon = keys.need_float("attention.layer_norm_rms_epsilon")?;
    let block = keys.count("block_size")?.unwrap_or(16);
    if block < 2 {
        return Err(keys.wrong("block_size", "2 or more"));
    }
    let mask = keys.mask_token()?;
    let n_states = target_layers.len().saturating_mul(n_embd);
    // Without a separate output matrix a draft uses its embedding, and without either those of its target.
    let own_output = weights.matrix_of_any_rows("output.weight", n_embd)?;
    let own_embedding = weights.matrix_of_any_rows("token_embd.weight", n_embd)?;
    let target_embedding = target.matrix_of_any_rows("token_embd.weight", n_embd)?;
    let missing = || Error::MissingTensor { name: "token_embd.weight".to_owned() };
    let embedding = own_embedding.clone().or(target_embedding).ok_or_else(missing)?;
    let weight = match own_output.or(own_embedding) {
        Some(weight) => weight,
        None => target.matrix_of_any_rows("output.weight", n_embd)?.unwrap_or_else(|| embedding.clone()),
    };
    if mask as usize >= embedding.n_out {
        return Err(Error::TokenRange { id: mask, n_vocab: embedding.n_out });
    }
    let ids = target_ids(weights, weight.n_out, embedding.n_out)?;
    let norm = |weights: &mut Weights<'_>, name: &str| {
        let weight = Some(weights.need_vector(&format!("{name}.weight"), n_embd)?);
        Ok::<_, Error>(Norm { kind: NormKind::Rms, epsilon, weight, bias: None })
    };
    let markov = Markov::open(weights, n_embd, embedding.n_out, weight.n_out)?;
    let selector = Selector::open(keys, weights, n_embd, embedding.n_out)?;
    // A selector proposes tokens of the target.
    if selector.is_some() && ids.is_some() {
        return Err(Error::MissingTensor { name: "d2t".to_owned() });
    }
    let layers = (0..keys.need_count("block_count")?).map(|i| Layer::open(keys, weights, i, n_embd, epsilon));
    Ok(Box::new(DFlash {
        layers: layers.collect::<Result<_, _>>()?,
        fc: Linear::need(weights, "fc", n_states, n_embd)?,
        fused_norm: norm(weights, "enc.output_norm")?,
        output_norm: norm(weights, "output_norm")?,
        embedding,
        embedding_scale: keys.float("embedding_scale")?.filter(|scale| *scale != 0.0).unwrap_or(1.0),
        head: Head {
            weight,
            bias: None,
            scale: keys
                .float("logit_scale")?
                .filter(|scale| *scale != 0.0 && selector.is_some())
                .unwrap_or(1.0),
            soft_cap: keys.float("final_logit_softcapping")?.filter(|cap| *cap > 0.0 && selector.is_some()),
        },
        starts_at_anchor: markov.is_some() && keys.flag("sample_from_anchor", true)?,
        ids,
        markov,
        selector,
        target_layers,
        n_embd,
        block,
        mask,
    }))
}

impl Layer {
    fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        n_embd: usize,
        epsilon: f32,
    ) -> Result<Layer, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let norm = |weight: Option<Vec<f32>>| {
            weight.map(|weight| Norm { kind: NormKind::Rms, epsilon, weight: Some(weight), bias: None })
        };
        let mut optional_norm = |name: &str| {
            let weight = weights.vector(&blk(&format!("{name}.weight")), n_embd)?;
            Ok::<_, Error>(norm(match weight {
                None => weights.vector(&blk(name), n_embd)?,
                weight => weight,
            }))
        };
        let need = |found: Option<Norm>, name: &str| {
            found.ok_or_else(|| Error::MissingTensor { name: blk(&format!("{name}.weight")) })
        };
        let (attention_norm, mlp_norm) = (optional_norm("attn_norm")?, optional_norm("ffn_norm")?);
        let (attention_post_norm, mlp_post_norm) =
            (optional_norm("post_attention_norm")?, optional_norm("post_ffw_norm")?);
        let activation = match keys.text("hidden_activation")? {
            None | Some("silu") => Activation::Silu,
            Some("gelu" | "gelu_pytorch_tanh") => Activation::GeluTanh,
            Some(_) => return Err(keys.wrong("hidden_activation", "silu or gelu")),
        };
        // Keys serve as values in layers without a matrix for those.
        let has_values = weights.shape(&blk("attn_v.weight")).is_some();
        let sliding =
            SlidingWindow { period: 1, base: SlidingBase::Shared, ..SlidingWindow::EVERY_FOURTH_FULL };
        let spec = Spec {
            is_causal: false,
            sees_block: true,
            value_norm: !has_values,
            sliding: Some(sliding),
            ..Spec::NEOX
        };
        let scale = weights.vector(&blk("layer_output_scale.weight"), 1)?;
        let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
        Ok(Layer {
            attention_norm: need(attention_norm, "attn_norm")?,
            attention: SelfAttention::open(spec, keys, weights, i, n_embd)?,
            attention_conv: Conv::open(keys, weights, &blk("attn"), n_embd)?,
            attention_post_norm,
            mlp_norm: need(mlp_norm, "ffn_norm")?,
            mlp: Mlp::open(activation, n_embd, weights, names)?,
            mlp_conv: Conv::open(keys, weights, &blk("ffn"), n_embd)?,
            mlp_post_norm,
            scale: scale.and_then(|scale| scale.first().copied()).unwrap_or(1.0),
        })
    }

    /// Rows of a block (n, n_embd) through layer `i`.
    fn run(&self, i: usize, x: &mut Rows, pass: &mut Pass<'_, '_>) {
        let attention = |h: &Rows, pass: &mut Pass<'_, '_>| self.attention.run(i, h, pass);
        let (conv, post_norm) = (self.attention_conv.as_ref(), self.attention_post_norm.as_ref());
        add(x, &self.attention_norm, conv, post_norm, attention, pass);
        let mlp = |h: &Rows, pass: &mut Pass<'_, '_>| self.mlp.run(h, pass);
        add(x, &self.mlp_norm, self.mlp_conv.as_ref(), self.mlp_post_norm.as_ref(), mlp, pass);
        if self.scale != 1.0 {
            *x *= self.scale;
        }
    }
}

/// `x += n_2 conv_2(part(conv_1(n_1 x)))`; both convolutions have kernels that follow from `n_1 x`.
fn add(
    x: &mut Rows,
    norm: &Norm,
    conv: Option<&Conv>,
    post_norm: Option<&Norm>,
    part: impl FnOnce(&Rows, &mut Pass<'_, '_>) -> Rows,
    pass: &mut Pass<'_, '_>,
) {
    let mut h = x.clone();
    norm.apply(&mut h);
    let kernels = conv.map(|conv| conv.kernels(&h, pass));
    if let (Some(conv), Some(kernels)) = (conv, &kernels) {
        h = conv.run(0, &h, kernels);
    }
    let mut y = part(&h, pass);
    if let (Some(conv), Some(kernels)) = (conv, &kernels) {
        y = conv.run(1, &y, kernels);
    }
    if let Some(norm) = post_norm {
        norm.apply(&mut y);
    }
    *x += &y;
}

impl DFlash {
    /// Rows of the block that are not predictions.
    fn n_leading(&self) -> usize {
        usize::from(!self.starts_at_anchor)
    }

    /// Tokens for the rows of a block, from x (n, n_embd) after the last norm.
    fn choose(&self, last: u32, x: &Rows) -> Vec<u32> {
        let logits = self.head.apply(x);
        let rows = logits.as_slice().chunks(logits.ncols().max(1)).skip(self.n_leading());
        if let Some(selector) = &self.selector {
            return selector.choose(last, rows, &x.select_rows(&(1..x.nrows()).collect::<Vec<_>>()));
        }
        let in_target = |id: usize| self.ids.as_ref().map_or(id as u32, |ids| ids[id]);
        let mut before = last;
        rows.map(|row| {
            let mut row = row.to_vec();
            if let Some(markov) = &self.markov {
                markov.add(before, &mut row);
            }
            before = in_target(likeliest(&row));
            before
        })
        .collect()
    }
}

impl Draft for DFlash {
    fn target_layers(&self) -> &[usize] {
        &self.target_layers
    }

    fn target_width(&self) -> usize {
        self.n_embd
    }

    fn most_tokens(&self) -> Option<usize> {
        Some(self.block - self.n_leading())
    }

    fn propose(&self, read: &Read<'_>, session: &mut Session, n: usize) -> Result<Vec<u32>, Error> {
        // Keys and values of what the target has run.
        read.run(session, read.next, |pass| {
            let mut fused = self.fc.run(read.states, pass);
            self.fused_norm.apply(&mut fused);
            for (i, layer) in self.layers.iter().enumerate() {
                layer.attention.put(i, &fused, pass);
            }
            Ok(())
        })?;
        let (n_read, Some(last)) = (session.n_past(), read.next.last().copied()) else {
            return Ok(Vec::new());
        };
        let n = n.min(self.block - self.n_leading());
        if n == 0 {
            return Ok(Vec::new());
        }
        let mut block = vec![self.mask; n + self.n_leading()];
        block[0] = last;
        let x = read.run(session, &block, |pass| {
            let mut x = pass.embed(&self.embedding)?;
            if self.embedding_scale != 1.0 {
                x *= self.embedding_scale;
            }
            for (i, layer) in self.layers.iter().enumerate() {
                layer.run(i, &mut x, pass);
            }
            self.output_norm.apply(&mut x);
            Ok(x.detached())
        })?;
        session.rewind(n_read);
        Ok(self.choose(last, &x))
    }
}
