//! The graph of EAGLE 3.
//!
//! ```text
//! g_p   = W_fc [s_1, s_2, s_3]_p        s: inputs of three layers of the target at position p, each (n_target); in EAGLE 3.1
//!                                       normalized together first
//! h     = [n_1 e_(p+1), n_2 g_p]        e_(p+1): the embedding of the token after p; h (2 n_embd)
//! x     = r + attention(h)              r: g_p, or n_2 g_p
//! x    += MLP(n_3 x)                    logits = W_out n_4 x, of the draft's own tokens
//! ```
//!
//! The position of the rotation is p, not p + 1. For each further token, x replaces g.
//!
//! Source: `llama_model_eagle3::graph` and `common_speculative_impl_draft_eagle3` of llama.cpp (llama-cpp-python 0.3.36).

use gguf_runtime::draft::largest;
use gguf_runtime::graphs::{
    Activation, Draft, DraftKind, Error, Head, Keys, Linear, Mlp, Norm, NormKind, Pass, Read, Rows,
    SelfAttention, Session, Spec, Weight, Weights, target_ids,
};

/// Drafts by the value of `general.architecture`.
pub const DRAFTS: &[DraftKind] = &[DraftKind { name: "eagle3", open }];

struct Eagle {
    target_layers: Vec<usize>,
    target_width: usize,
    /// Norm of the states of all layers together.
    states_norm: Option<Norm>,
    /// W_fc: (n_embd, 3 n_target).
    fc: Linear,
    /// (n_vocab, n_embd), its own or the target's.
    embedding: Weight,
    embedding_norm: Norm,
    fused_norm: Norm,
    /// True if the residual stream begins with the normalized states.
    begins_normalized: bool,
    attention: SelfAttention,
    mlp_norm: Norm,
    mlp: Mlp,
    output_norm: Norm,
    head: Head,
    /// The target's token for each of the draft's; `None` if they are the same.
    ids: Option<Vec<u32>>,
}

fn open(
    keys: &Keys<'_>,
    weights: &mut Weights<'_>,
    target: &mut Weights<'_>,
) -> Result<Box<dyn Draft>, Error> {
    let n_embd = keys.need_count("embedding_length")?;
    if keys.need_count("block_count")? != 1 {
        return Err(keys.wrong("block_count", "1"));
    }
    let target_width = keys.need_count("target_hidden_size")?;
    let target_layers = keys.list("target_layers")?.ok_or_else(|| keys.missing("target_layers"))?;
    let epsilon = keys.need_float("attention.layer_norm_rms_epsilon")?;
    let n_states = target_layers.len().saturating_mul(target_width);
    let norm = |weights: &mut Weights<'_>, name: &str, n: usize| {
        let weight = Some(weights.need_vector(&format!("{name}.weight"), n)?);
        Ok::<_, Error>(Norm { kind: NormKind::Rms, epsilon, weight, bias: None })
    };
    let states_norm = if keys.flag("norm_before_fc", false)? {
        Some(norm(weights, "enc.output_norm", n_states)?)
    } else {
        None
    };
    // A draft without its own embedding or output matrix has those of its target.
    let embedding = match own_or_target(weights, target, "token_embd.weight", n_embd)? {
        Some(embedding) => embedding,
        None => return Err(Error::MissingTensor { name: "token_embd.weight".to_owned() }),
    };
    let weight = match own_or_target(weights, target, "output.weight", n_embd)? {
        Some(weight) => weight,
        None => embedding.clone(),
    };
    let ids = target_ids(weights, weight.n_out, embedding.n_out)?;
    let names = ["gate", "up", "down"].map(|part| format!("blk.0.ffn_{part}"));
    Ok(Box::new(Eagle {
        states_norm,
        fc: Linear::need(weights, "fc", n_states, n_embd)?,
        embedding_norm: norm(weights, "blk.0.attn_norm", n_embd)?,
        fused_norm: norm(weights, "blk.0.attn_norm_2", n_embd)?,
        begins_normalized: keys.flag("norm_before_residual", false)?,
        attention: SelfAttention::open(Spec::DECODER, keys, weights, 0, n_embd.saturating_mul(2))?,
        mlp_norm: norm(weights, "blk.0.ffn_norm", n_embd)?,
        mlp: Mlp::open(Activation::Silu, n_embd, weights, names)?,
        output_norm: norm(weights, "output_norm", n_embd)?,
        head: Head { weight, bias: None, scale: 1.0, soft_cap: None },
        embedding,
        ids,
        target_layers,
        target_width,
    }))
}

/// A matrix (n_in, any number of rows) of the draft, or else of its target.
fn own_or_target(
    weights: &mut Weights<'_>,
    target: &mut Weights<'_>,
    name: &str,
    n_in: usize,
) -> Result<Option<Weight>, Error> {
    match weights.matrix_of_any_rows(name, n_in)? {
        None => target.matrix_of_any_rows(name, n_in),
        own => Ok(own),
    }
}

impl Eagle {
    /// States (n, 3 n_target) of the target as one row each: g (n, n_embd).
    fn fuse(&self, states: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut normed = states.clone();
        if let Some(norm) = &self.states_norm {
            norm.apply(&mut normed);
        }
        self.fc.run(&normed, pass)
    }

    /// x (n, n_embd) of the tokens of the pass, from g of the tokens before them.
    fn layer(&self, g: Rows, pass: &mut Pass<'_, '_>) -> Result<Rows, Error> {
        let (n, n_embd) = (g.nrows(), g.ncols());
        let mut embedded = pass.embed(&self.embedding)?;
        self.embedding_norm.apply(&mut embedded);
        let mut fused = g.clone();
        self.fused_norm.apply(&mut fused);
        let mut h = pass.scratch(n, 2 * n_embd);
        for (row, (e, g)) in
            h.as_mut_slice().chunks_exact_mut(2 * n_embd).zip(rows_of(&embedded).zip(rows_of(&fused)))
        {
            let (first, second) = row.split_at_mut(n_embd);
            first.copy_from_slice(e);
            second.copy_from_slice(g);
        }
        let mut x = if self.begins_normalized { fused } else { g };
        x += &self.attention.run(0, &h, pass);
        let mut h = x.clone();
        self.mlp_norm.apply(&mut h);
        x += &self.mlp.run(&h, pass);
        Ok(x)
    }

    /// The likeliest token after the row `last` (1, n_embd), as an id of the target.
    fn choose(&self, last: &Rows) -> u32 {
        let mut row = last.clone();
        self.output_norm.apply(&mut row);
        let id = largest(self.head.apply(&row).as_slice());
        self.ids.as_ref().map_or(id, |ids| ids[id as usize])
    }
}

/// The rows of a matrix as slices.
fn rows_of(rows: &Rows) -> impl Iterator<Item = &[f32]> {
    rows.as_slice().chunks_exact(rows.ncols().max(1))
}

impl Draft for Eagle {
    fn target_layers(&self) -> &[usize] {
        &self.target_layers
    }

    fn target_width(&self) -> usize {
        self.target_width
    }

    fn propose(&self, read: &Read<'_>, session: &mut Session, n: usize) -> Result<Vec<u32>, Error> {
        let x = read.run(session, read.next, |pass| {
            let g = self.fuse(read.states, pass);
            self.layer(g, pass)
        })?;
        let n_read = session.n_past();
        let mut last = x.select_rows(&[x.nrows().saturating_sub(1)]);
        let mut proposed = Vec::new();
        while proposed.len() < n {
            let id = self.choose(&last);
            proposed.push(id);
            if proposed.len() < n {
                last = read.run(session, &[id], |pass| self.layer(last.clone(), pass))?;
            }
        }
        // Keys of proposed tokens are recomputed from states of the target after it has run them.
        session.rewind(n_read);
        Ok(proposed)
    }
}
