//! The container from outside: bytes in, verdicts and bytes out.

#[cfg(test)]
mod errors;
#[cfg(test)]
mod goldens;
#[cfg(test)]
mod handcrafted;
#[cfg(test)]
mod random;
#[cfg(test)]
mod raw;
#[cfg(test)]
mod roundtrip;
#[cfg(test)]
mod split;
