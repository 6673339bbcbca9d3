//! Long runs: stopped, killed, resumed, divided into parts, on faulty disks, and with little memory.

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
