"""The one guarded HTTP client: policy, resolver, bounded decoding."""
