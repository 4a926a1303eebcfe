"""CRC: decentralized learning of generative classifiers."""
