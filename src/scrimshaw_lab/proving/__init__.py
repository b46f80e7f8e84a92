"""Proof of durability: real writer processes, killed and hindered in a scratch folder, and everything counted after."""
