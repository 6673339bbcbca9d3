//! Roles of tensors in diffusion models.

use std::fmt;

/// Role of a tensor of a diffusion model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Value projection.
    Values,
    /// Fused projection of queries, keys and values.
    Fused,
    /// Down projection.
    Down,
    /// Down projection of a layer with separate matrices for image and text.
    DoubleDown,
    /// Matrix of one expert.
    Expert,
}

impl Role {
    /// Number of roles.
    pub(super) const N: usize = Role::Expert as usize + 1;
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Values => "attention values",
            Role::Fused => "attention queries, keys and values",
            Role::Down => "feed-forward down",
            Role::DoubleDown => "feed-forward down of a double layer",
            Role::Expert => "expert",
        })
    }
}
