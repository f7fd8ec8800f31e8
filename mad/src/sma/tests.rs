mod attributes;
mod fake;
mod m_key;
mod nonsense;
mod partitions;
mod port;
mod traps;
