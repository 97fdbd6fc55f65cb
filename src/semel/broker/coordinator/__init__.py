"""What group and transaction coordinators share."""
