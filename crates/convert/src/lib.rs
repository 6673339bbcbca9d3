//! The pipeline: resolve a checkpoint, choose dtypes, plan the file, run.
