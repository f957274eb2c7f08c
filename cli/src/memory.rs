//! Memory of a process, from `/proc`.

/// Resident memory of this process in kB; 0 if unknown.
pub(crate) fn resident_kb() -> u64 {
    process_status_kb("self", "VmRSS:")
}

/// Peak resident memory of this process in kB; 0 if unknown.
pub(crate) fn peak_kb() -> u64 {
    process_status_kb("self", "VmHWM:")
}

/// One field of `/proc/PROCESS/status`, in kB; 0 if unknown.
pub(crate) fn process_status_kb(process: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
