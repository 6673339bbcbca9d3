//! Long runs: stopped, killed, resumed, divided into parts, on faulty disks, and with little memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[path = "../common/mod.rs"]
mod common;
#[cfg(all(unix, feature = "remote"))]
#[expect(dead_code, reason = "no test of runs needs its faults or its log of requests")]
#[path = "../hub_server/mod.rs"]
mod hub_server;

#[cfg(target_os = "linux")]
mod bounded_memory;
mod calibration;
#[cfg(target_os = "linux")]
mod faults;
mod many_tensors;
#[cfg(unix)]
mod parts;
#[cfg(unix)]
mod resume;
