//! What this machine can lack for a call: files, ports, buffers, memory, a network that is up.

use std::io::{self, ErrorKind};

/// Numbers of the system's errors that say so.
#[cfg(target_os = "linux")]
const OURS: &[i32] = &[
    23,  // ENFILE
    24,  // EMFILE
    12,  // ENOMEM
    105, // ENOBUFS
    100, // ENETDOWN
    99,  // EADDRNOTAVAIL: no port is left
];
/// Numbers of the system's errors that say so.
#[cfg(all(unix, not(target_os = "linux")))]
const OURS: &[i32] = &[
    23, // ENFILE
    24, // EMFILE
    12, // ENOMEM
    55, // ENOBUFS
    50, // ENETDOWN
    49, // EADDRNOTAVAIL: no port is left
];
/// Numbers of the system's errors that say so.
#[cfg(windows)]
const OURS: &[i32] = &[
    10024, // WSAEMFILE
    10055, // WSAENOBUFS
    10050, // WSAENETDOWN
    10049, // WSAEADDRNOTAVAIL
    8,     // ERROR_NOT_ENOUGH_MEMORY
];

/// Whether an error of the system is for want of something on our side, whatever the peer does.
///
/// A name that does not resolve is not among them: the system does not tell a resolver that is out
/// of reach from a name that is not there.
pub(super) fn is_ours(error: &io::Error) -> bool {
    error.kind() == ErrorKind::OutOfMemory
        || error
            .raw_os_error()
            .is_some_and(|number| OURS.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_table_of_files_that_is_full_is_ours_and_a_refusal_is_not() {
        for number in [12, 23, 24, 99, 100, 105] {
            assert!(is_ours(&io::Error::from_raw_os_error(number)), "{number}");
        }
        for number in [104, 110, 111, 113] {
            assert!(!is_ours(&io::Error::from_raw_os_error(number)), "{number}");
        }
        assert!(!is_ours(&io::Error::other("24")));
    }
}
