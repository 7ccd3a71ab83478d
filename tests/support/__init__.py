"""What tests share: real processes started, awaited and cleaned up."""
