//! What weights come in: bytes on disk to tensor views.
