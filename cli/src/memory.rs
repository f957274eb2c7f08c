//! How much memory a process holds, from the kernel.

/// What this process holds now, in kB; 0 where the kernel does not say.
pub(crate) fn held_kb() -> u64 {
    of("self", "VmRSS:")
}

/// The most that this process ever held, in kB; 0 where the kernel does not say.
pub(crate) fn peak_kb() -> u64 {
    of("self", "VmHWM:")
}

/// A line of a process's status.
pub(crate) fn of(process: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
