//! SigLIP: the vision tower that projectors of many families share.

pub mod projector;
