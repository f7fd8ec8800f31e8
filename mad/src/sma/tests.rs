mod attributes;
mod fake;
mod m_key;
mod nonsense;
mod port;
mod traps;
