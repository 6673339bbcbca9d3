//! The feed-forward part of a layer, as a mixture of experts.
//!
//! For each token, with `E` experts of which `k` are used:
//!
//! ```text
//! p = softmax(W_r h) or sigmoid(W_r h)               h (n_embd), W_r (E, n_embd), p (E); DeepSeek 4: sqrt(softplus(W_r h))
//! S = the k largest of p + bias                      bias (E) chooses and does not count in the weight (DeepSeek 3);
//!                                                    with groups, only experts of the best groups take part;
//!                                                    in the first layers of DeepSeek 4 the token decides
//! w_e = scale * p_e / (norm_topk_prob ? sum over S of p : 1)    gpt-oss: the softmax over S of W_r h
//! y = sum over S of w_e MLP_e(h)                     Llama 4: MLP_e(w_e h), the weight before the function
//!   + sigmoid(W_s h) MLP_shared(h)                   if there is a shared expert; without W_s the factor is 1
//!
//! latent experts (Nemotron 3): MLP_e takes and gives rows of a smaller width
//! y = W_up sum over S of w_e MLP_e(W_down h) + MLP_shared(h)          Kimi K3: the sum is normalized
//! ```
//!
//! Rows are sorted by expert first, so that the weights of each expert are decoded once for all of its rows.
//!
//! Source: `llm_graph_context::build_moe_ffn` of llama.cpp (llama-cpp-python 0.3.36).

mod adjugates;
mod backward;

use adjugates::Adjugates;

use super::{
    linear::Linear,
    mlp::Mlp,
    params::DecoderParams,
    routing::{Routed, Routing},
    stack::Stack,
};
use crate::{
    Error,
    keys::Keys,
    ops::{Activation, Norm, Product, Rows},
    pass::Pass,
    weights::Weights,
};

pub(super) struct Experts {
    router: Linear,
    routing: Routing,
    /// (n_vocab, n_used): experts of each token, if the router only weighs them.
    by_token: Option<Vec<usize>>,
    /// True if the input of an expert is multiplied with its weight, not the output.
    scale_input: bool,
    activation: Activation,
    gate: Option<Stack>,
    up: Stack,
    /// True if `up` contains the gates too, first: (2 n_ff, n_embd).
    is_fused: bool,
    down: Stack,
    /// To the rows that the experts take, and back from those that they give.
    latent: Option<Box<[Linear; 2]>>,
    /// Norm of the sum of latent experts.
    latent_norm: Option<Norm>,
    shared: Option<Mlp>,
    /// Factor of the sum of all, if there is a shared expert.
    sum_scale: f32,
    /// To one logit: its sigmoid is the factor of the shared expert.
    shared_gate: Option<Linear>,
    /// Smaller experts that groups of experts share.
    adjugates: Option<Box<Adjugates>>,
}

impl Experts {
    /// The experts of a layer, if it has a router.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<Experts>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let n_embd = params.n_embd;
        let n = keys.count("expert_count")?.unwrap_or(0);
        if n == 0 {
            return Ok(None);
        }
        let Some(router) = Linear::open(weights, &blk("ffn_gate_inp"), n_embd, n)? else { return Ok(None) };
        let per_layer = |key: &str| keys.counts(key, params.n_layer).map(|counts| counts.map(|c| c[i]));
        let n_used = per_layer("expert_used_count")?.ok_or_else(|| keys.missing("expert_used_count"))?;
        if n_used == 0 || n_used > n {
            return Err(keys.wrong("expert_used_count", "a part of the experts"));
        }
        // Mixtral and others have experts as wide as a dense layer, without a separate key.
        let n_ff = match per_layer("expert_feed_forward_length")?.filter(|n| *n > 0) {
            Some(n_ff) => n_ff,
            None => per_layer("feed_forward_length")?.ok_or_else(|| keys.missing("feed_forward_length"))?,
        };
        let bias = match weights.vector(&blk("exp_probs_b.bias"), n)? {
            // The reference writes Hunyuan 3's without an ending.
            None => weights.vector(&blk("exp_probs_b"), n)?,
            bias => bias,
        };
        // 0 or missing: no groups.
        let n_group = keys.count("expert_group_count")?.unwrap_or(0).max(1);
        let n_group_used = keys.count("expert_group_used_count")?.unwrap_or(0);
        let n_group_used = if n_group_used == 0 { n_group } else { n_group_used };
        if n % n_group != 0 || n_group_used > n_group || n_group_used * (n / n_group) < n_used {
            return Err(keys.wrong("expert_group_count", "groups that hold the experts that are used"));
        }
        // A shared expert is a plain MLP next to the stacks, recognized by its matrix.
        let ending = params.spec.shared_expert;
        let has_shared = weights.shape(&blk(&format!("ffn_down{ending}.weight"))).is_some();
        let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}{ending}")));
        let activation = params.activation(keys, i, "swiglu_clamp_shexp")?;
        let shared = has_shared.then(|| Mlp::open(activation, n_embd, weights, names)).transpose()?;
        let (length, name) = match keys.count("moe_latent_size")? {
            None => (keys.count("expert_latent_length")?, "routed"),
            length => (length, "latent"),
        };
        let latent = match length.filter(|n| *n > 0) {
            None => None,
            Some(n) => Some(Box::new([
                Linear::need(weights, &blk(&format!("ffn_{name}_down")), n_embd, n)?,
                Linear::need(weights, &blk(&format!("ffn_{name}_up")), n, n_embd)?,
            ])),
        };
        let latent_norm = params.optional_norm(weights, &blk("ffn_routed_norm"), length.unwrap_or(0))?;
        let n_in = latent.as_ref().map_or(n_embd, |latent| latent[0].weight.n_out);
        let fused = Stack::open(weights, &blk("ffn_gate_up_exps"), n_in, 2 * n_ff, n)?;
        let is_fused = fused.is_some();
        let up = match fused {
            Some(fused) => fused,
            None => Stack::need(weights, &blk("ffn_up_exps"), n_in, n_ff, n)?,
        };
        Ok(Some(Experts {
            router,
            routing: Routing::read(params, keys, n_used, bias)?.with_groups(n_group, n_group_used),
            by_token: by_token(weights, &blk("ffn_gate_tid2eid.weight"), n, n_used)?,
            scale_input: params.spec.scale_expert_input,
            activation: params.activation(keys, i, "swiglu_clamp_exp")?,
            gate: if is_fused { None } else { Stack::open(weights, &blk("ffn_gate_exps"), n_in, n_ff, n)? },
            up,
            is_fused,
            down: Stack::need(weights, &blk("ffn_down_exps"), n_ff, n_in, n)?,
            latent,
            latent_norm,
            shared,
            sum_scale: if has_shared { params.spec.shared_experts_scale } else { 1.0 },
            shared_gate: Linear::open(weights, &blk("ffn_gate_inp_shexp"), n_embd, 1)?,
            adjugates: Adjugates::open(activation, keys, weights, i, [n_embd, n])?.map(Box::new),
        }))
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        let n_ff = self.up.weight.n_out;
        2 * n_ff + 2 * self.up.weight.n_in + self.shared.as_ref().map_or(0, Mlp::row_floats)
    }

    /// Floats for each token that llama.cpp's graph has allocated at once, about.
    pub fn graph_floats(&self) -> usize {
        let (n_ff, n_out) = (self.down.weight.n_in, self.down.weight.n_out);
        let n_inner = if self.gate.is_some() || self.is_fused { 3 * n_ff } else { n_ff };
        // Outputs of experts replace gate and up if there is room; otherwise they are separate, and so is
        // their sum.
        let n_used = self.routing.n_used();
        let n_down = if n_out > 2 * n_ff { n_used * n_out + n_out } else { 0 };
        let routed = n_used * n_inner + n_down + 2 * self.router.weight.n_out;
        routed.max(self.shared.as_ref().map_or(0, |shared| shared.graph_floats() + n_out))
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        self.run_routed_by(h, h, pass)
    }

    /// Like this, if the router reads other rows: `routed_by, h (n, n_embd) -> (n, n_embd)`.
    pub fn run_routed_by(&self, routed_by: &Rows, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        // Step 1: route. For each expert, the rows that go to it and their weights.
        let logits = self.router.run(routed_by, pass);
        let (tokens, n_used) = (&pass.tokens, self.routing.n_used());
        let chosen = |row: usize| {
            let experts = self.by_token.as_ref()?;
            experts.get(tokens[row] as usize * n_used..)?.get(..n_used)
        };
        let routed = self.routing.route_all(&logits, &chosen);
        drop(logits);

        // Step 2: the shared expert, which sees every row.
        let mut out = match &self.shared {
            None => pass.zeros(h.nrows(), h.ncols()),
            Some(shared) => {
                let mut out = shared.run(h, pass);
                if let Some(gate) = &self.shared_gate {
                    let gate = gate.run(h, pass);
                    for (mut row, gate) in out.rows_mut().into_iter().zip(gate.iter()) {
                        row *= 1.0 / (1.0 + libm::expf(-gate));
                    }
                }
                out
            }
        };

        // Step 3: the chosen experts, of narrower rows where those are latent.
        match &self.latent {
            None => self.add_routed(&routed, h, &mut out, pass),
            Some(latent) => {
                let [down, up] = &**latent;
                let narrow = down.run(h, pass);
                let mut sum = pass.zeros(narrow.nrows(), narrow.ncols());
                self.add_routed(&routed, &narrow, &mut sum, pass);
                drop(narrow);
                if let Some(norm) = &self.latent_norm {
                    norm.apply(&mut sum);
                }
                out += &up.run(&sum, pass);
            }
        }
        if let Some(adjugates) = &self.adjugates {
            adjugates.add(&routed, h, &mut out, pass);
        }
        if self.sum_scale != 1.0 {
            out *= self.sum_scale;
        }
        out
    }

    /// Gathers the rows of each expert, runs it, and adds what it gives to the rows of `out` that they came from.
    fn add_routed(&self, routed: &[Routed], h: &Rows, out: &mut Rows, pass: &mut Pass<'_, '_>) {
        for (expert, (rows, weights)) in routed.iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty()) {
            let mut x = pass.select_rows(h, rows);
            if self.scale_input {
                x.rows_mut().into_iter().zip(weights).for_each(|(mut row, weight)| row *= *weight);
            }
            pass.routed = Some(rows.clone());
            let y = self.run_one(expert, &x, pass);
            pass.routed = None;
            let ones = if self.scale_input { vec![1.0; rows.len()] } else { Vec::new() };
            out.add_to_rows(rows, if self.scale_input { &ones } else { weights }, &y);
        }
    }

    /// One expert: `h (n_rows, n_embd) -> (n_rows, n_embd)`, with the equations of [`Mlp`].
    fn run_one(&self, expert: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (gate, up) = self.gate_and_up(expert, h, pass);
        self.give(expert, gate, up, pass)
    }

    /// Output of one expert, given the input of its activation function.
    fn give(&self, expert: usize, gate: Option<Rows>, mut up: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let inner = match gate {
            Some(mut gate) => {
                self.activation.apply_gated(&mut gate, &up);
                gate
            }
            None if self.is_fused => {
                let mut inner = pass.scratch(up.nrows(), self.down.weight.n_in);
                self.activation.apply_halves(&up, true, &mut inner);
                inner
            }
            None => {
                self.activation.apply(&mut up);
                up
            }
        };
        let mut out = pass.scratch(inner.nrows(), self.down.weight.n_out);
        let product = Product { weight: &self.down.weight, index: expert, out: out.view_mut() };
        pass.mul_mat(inner.view(), vec![product]);
        self.down.scale_and_add_bias(expert, &mut out);
        out
    }

    /// Input of one expert's activation function: gates, if they have a separate matrix, and the gated
    /// values.
    fn gate_and_up(&self, expert: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> (Option<Rows>, Rows) {
        let mut up = pass.scratch(h.nrows(), self.up.weight.n_out);
        let mut gate = self.gate.as_ref().map(|gates| (gates, pass.scratch(h.nrows(), gates.weight.n_out)));
        let gate_product = gate.as_mut().map(|(gates, out)| (&gates.weight, out.view_mut()));
        let products = gate_product.into_iter().chain([(&self.up.weight, up.view_mut())]);
        let products = products.map(|(weight, out)| Product { weight, index: expert, out });
        pass.mul_mat(h.view(), products.collect());
        if let Some((gates, gate)) = &mut gate {
            gates.scale_and_add_bias(expert, gate);
        }
        self.up.scale_and_add_bias(expert, &mut up);
        (gate.map(|(_, gate)| gate), up)
    }
}

/// Experts of each token, if the file lists them.
fn by_token(
    weights: &mut Weights<'_>,
    name: &str,
    n: usize,
    n_used: usize,
) -> Result<Option<Vec<usize>>, Error> {
    let n_vocab = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
    let Some(experts) = weights.integers(name, n_vocab.saturating_mul(n_used))? else { return Ok(None) };
    let experts = experts.into_iter().map(|expert| usize::try_from(expert).ok().filter(|expert| *expert < n));
    let experts: Option<Vec<usize>> = experts.collect();
    experts.map(Some).ok_or_else(|| Error::ExpertRange { name: name.to_owned(), n })
}
