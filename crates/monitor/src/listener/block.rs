//! PerSourceNetBlockSize: the address block that counts as one source.

use std::net::IpAddr;

/// An address whose bits after the prefix are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NetBlock(IpAddr);

impl NetBlock {
    /// The block that contains `address`, with a prefix of `bits4` bits for IPv4 and `bits6` bits
    /// for IPv6, capped at 32 and 128. An IPv4-mapped IPv6 address counts as IPv4.
    pub(crate) fn of(address: IpAddr, bits4: u8, bits6: u8) -> Self {
        Self(config::address::net_block(
            address,
            bits4.min(32),
            bits6.min(128),
        ))
    }

    /// The block's first address.
    pub(crate) fn address(self) -> IpAddr {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_block_are_one_source() {
        let block = |text: &str, bits4, bits6| NetBlock::of(text.parse().unwrap(), bits4, bits6);
        assert_eq!(block("192.0.2.7", 24, 128), block("192.0.2.200", 24, 128));
        assert_ne!(block("192.0.2.7", 32, 128), block("192.0.2.8", 32, 128));
        assert_eq!(block("1.2.3.4", 0, 0), block("200.1.1.1", 0, 0));
        assert_eq!(block("2001:db8::1", 32, 64), block("2001:db8::2", 32, 64));
        assert_ne!(
            block("2001:db8::1", 32, 64),
            block("2001:db8:0:1::1", 32, 64)
        );
        assert_eq!(block("::ffff:192.0.2.7", 32, 0), block("192.0.2.7", 32, 0));
    }
}
