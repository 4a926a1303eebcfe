"""CVaR-CTA: risk-aware learning over links that lose messages."""
