//! Seeded data, nasty blocks and golden comparison, for tests only.
