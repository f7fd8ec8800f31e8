//! How work ends.

/// The status of a completion. The numbers are those of `ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Success = 0,
    /// The message is longer than the memory that was given for it.
    LocalLength = 1,
    /// The request makes no sense for the queue pair.
    LocalOperation = 2,
    /// A local key, its protection domain, a bound or an access right is wrong.
    LocalProtection = 4,
    /// The queue pair went to an error state before the request was done.
    Flushed = 5,
    /// The peer's answer makes no sense.
    BadResponse = 7,
    /// The peer refused the request as invalid.
    RemoteInvalidRequest = 9,
    /// The peer refused a remote key, an access right or a bound.
    RemoteAccess = 10,
    /// The peer could not complete the request.
    RemoteOperation = 11,
    /// The peer did not answer, as often as the request was repeated.
    RetryExceeded = 12,
    /// The peer had no receive request, as often as the request was repeated.
    RnrRetryExceeded = 13,
}

/// The kind of work of a completion. The numbers are those of `ibv_wc_opcode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WorkKind {
    /// SEND.
    Send = 0,
    /// RDMA WRITE.
    Write = 1,
    /// RDMA READ.
    Read = 2,
    /// Compare and swap.
    CompareSwap = 3,
    /// Fetch and add.
    FetchAdd = 4,
    /// A receive request, consumed by a SEND.
    Receive = 128,
    /// A receive request, consumed by an RDMA WRITE with immediate data.
    ReceiveWrite = 129,
}
